"""Reads commands from standard input and writes replies to standard output (edge).

A command is a JSON object with the keys `do` and `id`. Its reply has the same `id`, and the key
`error` if it failed. The end of a child is a line with the keys `exited` and `code`, before or
between replies.
"""

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any, Final

from ottla.launcher.children import Children

READ_BYTES: Final = 65_536


class Commands:
    """Serves the commands of one program: the parent of this process."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._started: dict[int, int] = {}
        """The id of the last command that has started a child, and the child's process id."""
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # The handler itself does nothing; the signal's number arrives in the pipe.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Ctrl-C is for the parent, which then ends this process in order.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def serve(self) -> None:
        """Carry out commands until the end of the input, then kill all children."""
        unread = b""
        try:
            self._say({"ready": os.getpid()})
            while True:
                ready, _, _ = select.select((sys.stdin.fileno(), self._woken), (), ())
                if self._woken in ready:
                    os.read(self._woken, READ_BYTES)
                self._report_exits()
                if sys.stdin.fileno() not in ready:
                    continue
                received = os.read(sys.stdin.fileno(), READ_BYTES)
                if not received:
                    return
                *lines, unread = (unread + received).split(b"\n")
                for line in lines:
                    command = json.loads(line)
                    self._say({**self._carry_out(command), "id": command["id"]})
        except BrokenPipeError:
            # The parent is dead.
            return
        finally:
            self._children.kill_all()

    def _report_exits(self) -> None:
        for each in self._children.reap():
            self._say({"exited": each.pid, "code": each.code})

    def _carry_out(self, command: dict[str, Any]) -> dict[str, object]:
        try:
            match command["do"]:
                case "start":
                    output = Path(command["output"])
                    pid = self._children.start(command["program"], command["arguments"], output)
                    self._started = {command["id"]: pid}
                    return {"pid": pid}
                case "undo":
                    if command["command"] in self._started:
                        self._children.send(self._started[command["command"]], signal.SIGKILL)
                    return {}
                case "signal":
                    self._children.send(command["pid"], command["number"])
                    return {}
                case "fill":
                    self._children.fill_disk(command["pid"], is_full=command["is_full"])
                    return {}
                case unknown:
                    return {"error": f"there is no command {unknown!r}"}
        except OSError as error:
            return {"error": str(error)}

    def _say(self, reply: dict[str, object]) -> None:
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
