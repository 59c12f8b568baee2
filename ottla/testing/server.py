"""One server process: a broker, a coordinator or a network (edge).

A server keeps its directory and its arguments, so that `start` continues after `kill` or `stop`.
"""

import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.testing.errors import StartError, StateError
from ottla.testing.launching import Launcher, shared_launcher

READY_TIMEOUT_S: Final = 60.0
"""Far more than a server needs, because other tests share the machine."""
STOP_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.002
LOG_FILE: Final = "log.jsonl"
LOG_LINES_SHOWN: Final = 20


class Server:
    """A program with arguments, which runs or does not.

    `ready` is the text of the log line with which it reports that it serves.
    """

    def __init__(
        self, program: str, name: str, arguments: Sequence[str], directory: Path, ready: str
    ) -> None:
        self.name = name
        self.directory = directory
        self.log_path = directory / LOG_FILE
        self.is_paused = False
        self._program = program
        self._arguments = arguments
        self._ready = ready.encode()
        self._pid: int | None = None
        self._is_discarded = False
        self._launcher: Launcher
        self._log_start = 0

    @property
    def is_running(self) -> bool:
        """Whether the process runs or is paused."""
        return self._pid is not None and self._launcher.exit_code(self._pid) is None

    @property
    def can_answer(self) -> bool:
        """Whether the process runs and is not paused."""
        return not self._is_lost and self.is_running and not self.is_paused

    @property
    def _is_lost(self) -> bool:
        """Whether the launcher has ended, and the process with it."""
        return self._pid is not None and self._launcher.has_ended

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            StateError: the server does not run.
        """
        if self._pid is None or not self.is_running:
            raise StateError(f"{self.name} does not run: start it first")
        return self._pid

    def launch(self) -> None:
        """Start the process; `wait_until_ready` waits for it.

        Raises:
            StateError: the server runs, or was discarded.
            StartError: the process cannot be created.
        """
        if self._is_discarded:
            raise StateError(f"{self.name} was closed: use it within its `with` block")
        if self.is_running:
            raise StateError(f"{self.name} runs already (process {self._pid})")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._launcher = shared_launcher()
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._pid = self._launcher.start(self._program, self._arguments, self.log_path)
        self.is_paused = False

    def wait_until_ready(self) -> None:
        """Wait until the server serves.

        Raises:
            StartError: it has exited, or was not ready within `READY_TIMEOUT_S`.
        """
        assert self._pid is not None, "launched before"
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            output = b""
            while self._ready not in output:
                # Before the read, so that the last lines of a dead process are seen.
                code = self._launcher.exit_code(self._pid, POLL_S)
                output += log.read()
                if self._ready not in output and code is not None:
                    raise StartError(f"{self.name} ended with exit code {code}:\n{self.log_tail()}")
                if time.monotonic() > deadline_s:
                    raise StartError(
                        f"{self.name} is not ready after {READY_TIMEOUT_S} s:\n{self.log_tail()}"
                    )

    def start(self) -> None:
        """Start the process and wait until it serves.

        Raises:
            StateError: the server runs, or was discarded.
            StartError: it does not start.
        """
        self.launch()
        self.wait_until_ready()

    def kill(self) -> None:
        """End the process at once, as `kill -9` or a crash does."""
        self._end(self.pid, signal.SIGKILL)

    def stop(self) -> int:
        """End the process in order (SIGTERM) and return its exit code.

        Raises:
            StateError: it did not end within `STOP_TIMEOUT_S`, and was killed.
        """
        return self._end(self.pid, signal.SIGTERM)

    def _end(self, pid: int, number: signal.Signals) -> int:
        self._launcher.send(pid, number)
        if self.is_paused:
            # Otherwise SIGTERM would wait; SIGKILL has ended the process by now.
            self.resume()
        code = self._launcher.exit_code(pid, STOP_TIMEOUT_S)
        if code is None:
            self._launcher.send(pid, signal.SIGKILL)
            raise StateError(f"{self.name} did not stop within {STOP_TIMEOUT_S} s, and was killed")
        self._pid = None
        return code

    def pause(self) -> None:
        """Suspend the process (SIGSTOP); data sent to it waits in its sockets."""
        self._launcher.send(self.pid, signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """Continue a suspended process (SIGCONT)."""
        if self._pid is not None:
            self._launcher.send(self._pid, signal.SIGCONT)
        self.is_paused = False

    def fill_disk(self) -> None:
        """Let every write to the logs fail as on a full disk, until `free_disk`."""
        self._launcher.fill_disk(self.pid, is_full=True)

    def free_disk(self) -> None:
        """End `fill_disk`. The server notices free space within seconds."""
        self._launcher.fill_disk(self.pid, is_full=False)

    def events(self, name: str | None = None) -> list[dict[str, object]]:
        """Return the events in the log of all runs, oldest first; only those called `name`."""
        found = []
        for line in self.log_path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and name in (None, event.get("event")):
                found.append(event)
        return found

    def log_tail(self) -> str:
        """Return the last lines of the log, for the message of a failure."""
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES_SHOWN:])

    def discard(self) -> None:
        """Kill the process, unless it has ended; it may be about to end by itself.

        It cannot start again: its ports are free, and its directory may be gone.
        """
        self._is_discarded = True
        if self._pid is not None and not self._is_lost:
            self._end(self._pid, signal.SIGKILL)
