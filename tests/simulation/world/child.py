"""Child processes of a simulated world: the programs that brokers and coordinators start."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from coordination.server.disk.snapshotter import take_snapshot
from storage.compaction import worker

if TYPE_CHECKING:
    from tests.simulation.world.loop import WorldLoop

DURATION_S: Final = (0.001, 0.5)
SIGKILL_CODE: Final = -9

Program = Callable[[Sequence[str], str], str]
"""Runs with arguments and standard input; returns standard output."""


def _clean(_arguments: Sequence[str], text: str) -> str:
    output = io.StringIO()
    worker.main(io.StringIO(text), output)
    return output.getvalue()


def _snapshot(arguments: Sequence[str], _text: str) -> str:
    take_snapshot(Path(arguments[0]))
    return ""


PROGRAMS: Final[dict[str, tuple[str, Program]]] = {
    "storage.compaction.worker": ("compaction", _clean),
    "coordination.server.disk.snapshotter": ("snapshot", _snapshot),
}
"""Name of its operation and function, by the module of a program."""


class Children:
    """Starts child processes; counts them."""

    def __init__(self, loop: WorldLoop) -> None:
        self.loop = loop
        self.count = 0

    def start(self, protocol: Any, command: Sequence[str]) -> tuple[Child, Any]:
        """Start `python ... -m PROGRAM ARGUMENTS`."""
        self.count += 1
        place = command.index("-m")
        operation, program = PROGRAMS[command[place + 1]]
        on_ended = self.loop.overlaps.begin(operation)
        child = Child(self.loop, protocol, self.count, program, command[place + 2 :], on_ended)
        protocol.connection_made(child)
        child.begin()
        return child, protocol


class Child(asyncio.SubprocessTransport):
    """A child process."""

    def __init__(
        self,
        loop: WorldLoop,
        protocol: Any,
        number: int,
        program: Program,
        arguments: Sequence[str],
        on_ended: Callable[[], None],
    ) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._pid = -1_000_000 - number
        self._program = program
        self._arguments = arguments
        self._input = _Input(self._run_soon)
        self._code: int | None = None
        self._on_ended = on_ended
        self._ended: asyncio.Future[int] = loop.create_future()

    def begin(self) -> None:
        """Run, if nothing is to come through standard input."""
        if getattr(self._protocol, "stdin", None) is None:
            self._run_soon()

    def get_pid(self) -> int:
        return self._pid

    def get_returncode(self) -> int | None:
        return self._code

    def get_pipe_transport(self, fd: int) -> Any:
        is_cleaner = self._program is _clean
        return {0: self._input, 1: _Output()}.get(fd) if is_cleaner else None

    def kill(self) -> None:
        self._end(SIGKILL_CODE)

    def close(self) -> None:
        self.kill()

    async def _wait(self) -> int:
        return await asyncio.shield(self._ended)

    def _run_soon(self) -> None:
        self._loop.call_later(self._loop.chance.uniform(*DURATION_S), self._run)

    def _run(self) -> None:
        if self._code is not None:
            return
        try:
            output = self._program(self._arguments, self._input.text())
        except Exception:
            self._end(1)
            raise
        delay_s = 0.0
        for line in output.splitlines(keepends=True):
            delay_s += self._loop.chance.uniform(0.0001, 0.01)
            self._loop.call_later(delay_s, self._say, line.encode())
        self._loop.call_later(delay_s + 0.001, self._end, 0)

    def _say(self, line: bytes) -> None:
        if self._code is None:
            self._protocol.pipe_data_received(1, line)

    def _end(self, code: int) -> None:
        if self._code is None:
            self._code = code
            self._on_ended()
            self._ended.set_result(code)
            for pipe in (0, 1):
                self._protocol.pipe_connection_lost(pipe, None)
            self._protocol.process_exited()


class _Input(asyncio.WriteTransport):
    """Standard input of a child."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        super().__init__()
        self._data = b""
        self._on_closed = on_closed

    def text(self) -> str:
        return self._data.decode()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._data += bytes(data)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        self._on_closed()


class _Output(asyncio.ReadTransport):
    """Standard output of a child."""

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass
