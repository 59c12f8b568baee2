"""The live table of `ottla up` on a terminal."""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.coordination.process import wait_until

CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
TIMEOUT_S = 60
SIZE = {"COLUMNS": "80", "LINES": "40", "TERM": "xterm"}


class Terminal:
    """`ottla up` in a pseudo-terminal; `text` is its output so far."""

    def __init__(self, directory: Path) -> None:
        self.text = ""
        self.has_ended = False
        # Not `fork`: other threads of the test may hold locks.
        controlling, terminal = os.openpty()
        arguments = ["up", "--brokers", "1", "--port", "0", "--no-console"]
        arguments += ["--dir", str(directory)]
        self.pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "ottla.cli", *arguments],
            {**os.environ, **SIZE},
            file_actions=[(os.POSIX_SPAWN_DUP2, terminal, number) for number in (0, 1, 2)],
        )
        os.close(terminal)
        self._reader = threading.Thread(target=self._read, args=(controlling,), daemon=True)
        self._reader.start()

    def _read(self, controlling: int) -> None:
        with os.fdopen(controlling, "rb", buffering=0) as stream:
            try:
                while data := stream.read(65_536):
                    self.text += CONTROL_SEQUENCE.sub("", data.decode("utf-8", "replace"))
            except OSError:
                # A pseudo-terminal ends with this error once its programs have exited.
                return

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        os.kill(self.pid, number)
        _pid, status = os.waitpid(self.pid, 0)
        self._reader.join(TIMEOUT_S)
        self.has_ended = True
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    if not terminal.has_ended:
        terminal.end(signal.SIGKILL)


def test_table_shows_the_brokers_and_refreshes_itself(terminal: Terminal) -> None:
    wait_until(lambda: "0 partitions" in terminal.text, TIMEOUT_S)
    assert terminal.text.startswith("ready 127.0.0.1:")
    wait_until(lambda: terminal.text.count("controller") >= 2, TIMEOUT_S)
    for column in ("broker", "leaders", "lagging", "records/s", "MB"):
        assert column in terminal.text
    assert terminal.end(signal.SIGINT) == 0
    # The table has ended by then: the stop is reported below it.
    assert "broker-1 stopped" in terminal.text
    assert "coordinator stopped" in terminal.text
