"""The process that starts servers (edge): `python -m ottla.launcher`, one per program.

It starts with the first server, and ends with this program. Servers share it because it has
imported all that they need: a server forked from it is ready in a fraction of the time.
"""

import atexit
import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ottla.testing.errors import ServerError, StartError

START_TIMEOUT_S: Final = 60.0
"""Far more than imports take, because machines that run tests are busy."""
REPLY_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.002
READ_BYTES: Final = 65_536
NO_ID: Final = 0
"""The id of a command whose reply matters to nobody."""


class Launcher:
    """A launcher process. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._exits: dict[int, int] = {}
        self._unread = b""
        self._asked = 0
        self._process = subprocess.Popen(
            # Ignores the working directory, which may contain unrelated modules.
            [sys.executable, "-P", "-m", "ottla.launcher"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": _path()},
            process_group=0,
            bufsize=0,
        )
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._is_ready = False

    def start(self, program: str, arguments: Sequence[str], output: Path) -> int:
        """Start a server whose output is appended to a file; return its process id.

        Raises:
            StartError: the launcher does not run, or the process cannot be created.
        """
        reply = self._ask(
            {"do": "start", "program": program, "arguments": arguments, "output": str(output)}
        )
        pid: int = reply["pid"]
        return pid

    def send(self, pid: int, number: int) -> None:
        """Send a signal to a server, unless it has exited."""
        self._ask({"do": "signal", "pid": pid, "number": int(number)})

    def fill_disk(self, pid: int, *, is_full: bool) -> None:
        """Let the disk of a server appear full, or no longer full."""
        self._ask({"do": "fill", "pid": pid, "is_full": is_full})

    def exit_code(self, pid: int, timeout_s: float = 0.0) -> int | None:
        """Return the exit code of a server; None if it still runs after the timeout."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            with self._lock:
                while pid not in self._exits and self._receive(0.0) is not None:
                    pass
                if pid in self._exits:
                    return self._exits[pid]
            if time.monotonic() >= deadline_s:
                return None
            # Without the lock: the end may need a command of another thread.
            time.sleep(POLL_S)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, and all servers with it."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Kill all servers and end the process."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.wait()
            self._selector.close()
            self._process.stdout.close()

    def abandon(self) -> None:
        """Let go of a launcher that belongs to the parent of this process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # The launcher ends with the last copy of its input. This one would keep it alive when
        # the parent has closed its own, which waits, or has died.
        self._process.stdin.close()
        self._selector.close()
        self._process.stdout.close()
        # It is no child of this process, so Python must not wait for it.
        self._process.returncode = 0

    def _ask(self, command: dict[str, object]) -> dict[str, Any]:
        with self._lock:
            self._wait_until_ready()
            assert self._process.stdin is not None
            self._asked += 1
            line = json.dumps({**command, "id": self._asked}).encode() + b"\n"
            try:
                self._process.stdin.write(line)
                # Earlier replies are to commands whose wait Ctrl-C or a timeout has ended.
                while (reply := self._next_reply(REPLY_TIMEOUT_S))["id"] != self._asked:
                    pass
            except (BrokenPipeError, ValueError):
                raise StartError("the process that starts servers has ended") from None
            except BaseException:
                self._undo(self._asked)
                raise
        if "error" in reply:
            raise ServerError(reply["error"])
        return reply

    def _undo(self, command_id: int) -> None:
        """Have the server killed that a command has started, or will start when it is read.

        Nobody waits for the reply of the command any more, so nothing else knows this server.
        """
        assert self._process.stdin is not None
        undo = {"do": "undo", "command": command_id, "id": NO_ID}
        # Without a launcher there is no server, either.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(undo).encode() + b"\n")

    def _wait_until_ready(self) -> None:
        if not self._is_ready:
            self._next_reply(START_TIMEOUT_S)
            self._is_ready = True

    def _next_reply(self, timeout_s: float) -> dict[str, Any]:
        deadline_s = time.monotonic() + timeout_s
        while True:
            message = self._receive(max(0.0, deadline_s - time.monotonic()))
            if message is None:
                raise StartError(f"the process that starts servers is silent for {timeout_s} s")
            if "exited" not in message:
                return message

    def _receive(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the next message; None after the timeout. Exits are noted, too."""
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            raise StartError("the process that starts servers has ended, or is the parent's")
        while b"\n" not in self._unread:
            if not self._selector.select(timeout_s):
                return None
            received = os.read(self._process.stdout.fileno(), READ_BYTES)
            if not received:
                raise StartError(
                    "the process that starts servers has ended "
                    f"(exit code {self._process.wait()}): see its output above"
                )
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "exited" in message:
            self._exits[message["exited"]] = message["code"]
        return message


_launchers: Final[list[Launcher]] = []
"""The launcher of this process, if there is one."""
_lock = threading.Lock()


def shared_launcher() -> Launcher:
    """Return the launcher of this process, which starts with the first call, and if it has ended.

    Raises:
        OSError: the system cannot start a process.
    """
    with _lock:
        if _launchers and _launchers[0].has_ended:
            # Its servers have ended with it, but others can still start.
            _launchers.pop().close()
        if not _launchers:
            _launchers.append(Launcher())
        return _launchers[0]


@atexit.register
def close_launcher() -> None:
    """End the launcher of this process, if there is one."""
    while _launchers:
        _launchers.pop().close()


def _abandon_inherited() -> None:
    """In a process that was forked from a user of a launcher: it needs its own."""
    global _lock
    # Another thread of the parent may have held it, and does not run here.
    _lock = threading.Lock()
    while _launchers:
        _launchers.pop().abandon()


os.register_at_fork(after_in_child=_abandon_inherited)


def _path() -> str:
    """Return PYTHONPATH with the directory of this package first."""
    ours = str(Path(__file__).resolve().parents[2])
    known = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    return os.pathsep.join([ours, *(each for each in known if each != ours)])
