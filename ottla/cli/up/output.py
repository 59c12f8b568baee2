"""Standard output and standard error that never wait for their reader (edge).

A reader may stop reading while its pipe is open, and a terminal stands still after Ctrl-S. The
event loop, which restarts and stops the children, must not wait for them. No thread writes instead:
the supervisor forks, which is unsafe with other threads.
"""

import asyncio
import contextlib
import io
import os
import select
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MAX_WAITING: Final = 100
"""Number of writes that wait for room; after that, the oldest are left out."""
RETRY_S: Final = 0.1
END_TIMEOUT_S: Final = 1.0
"""Time for a reader to take the last lines."""


class Output(io.RawIOBase):
    """A stream of this process. Each write is written whole and in order, or left out.

    `left_out` returns a line for the reader about the number of writes that were left out.
    """

    def __init__(self, stream: TextIO, left_out: Callable[[int], str]) -> None:
        self.name = stream.name
        self._descriptor = stream.fileno()
        # The flag O_NONBLOCK of the stream itself would be one of its other users, too.
        self._own_terminal = _reopened_terminal(self._descriptor)
        self._target = self._descriptor if self._own_terminal is None else self._own_terminal
        self._poll = select.poll()
        self._poll.register(self._target, select.POLLOUT)
        self._left_out = left_out
        self._left_out_count = 0
        self._waiting: deque[bytes] = deque()
        self._rest = b""
        """The end of a write whose beginning is written."""
        self._retry: asyncio.TimerHandle | None = None
        self._is_written = asyncio.Event()
        self._is_written.set()

    def write(self, data: "ReadableBuffer") -> int:
        """Write `data` now or once there is room.

        Raises:
            OSError: there is no reader, or the disk is full; all that waits is discarded.
        """
        if len(self._waiting) == MAX_WAITING:
            self._waiting.popleft()
            self._left_out_count += 1
        self._waiting.append(bytes(data))
        try:
            self._write_waiting()
        except OSError:
            self._discard()
            raise
        return len(memoryview(data))

    async def finish(self) -> None:
        """Wait until all is written, but not for longer than `END_TIMEOUT_S`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_TIMEOUT_S):
                await self._is_written.wait()
        self._discard()
        if self._own_terminal is not None:
            os.close(self._own_terminal)

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return os.isatty(self._descriptor)

    @property
    def _is_waiting(self) -> bool:
        return bool(self._rest or self._waiting or self._left_out_count)

    def _write_waiting(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        with contextlib.suppress(BlockingIOError):
            # A pipe or socket with room takes this many bytes without a wait.
            while self._is_waiting and self._poll.poll(0):
                self._rest = self._rest or self._next()
                self._rest = self._rest[os.write(self._target, self._rest[: select.PIPE_BUF]) :]
        if not self._is_waiting:
            self._is_written.set()
        else:
            self._is_written.clear()
            # Not as soon as it is writable: a terminal may have room, but not for the next byte.
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._on_retry)

    def _next(self) -> bytes:
        if self._left_out_count:
            line, self._left_out_count = self._left_out(self._left_out_count), 0
            if line:
                return line.encode()
        return self._waiting.popleft()

    def _on_retry(self) -> None:
        try:
            self._write_waiting()
        except OSError:
            self._discard()

    def _discard(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._rest, self._left_out_count = b"", 0
        self._waiting.clear()
        self._is_written.set()


@contextlib.asynccontextmanager
async def outputs_without_waiting(
    left_out: Callable[[int], str], left_out_errors: Callable[[int], str]
) -> AsyncIterator[None]:
    """Let both streams of this process wait for their readers at the end only, for a moment."""
    output, errors = Output(sys.stdout, left_out), Output(sys.stderr, left_out_errors)
    try:
        with (
            contextlib.redirect_stdout(_text(output, sys.stdout)),
            contextlib.redirect_stderr(_text(errors, sys.stderr)),
        ):
            yield
    finally:
        await asyncio.gather(output.finish(), errors.finish())


def _text(output: Output, stream: TextIO) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        output, encoding=stream.encoding, errors=stream.errors, write_through=True
    )


def _reopened_terminal(descriptor: int) -> int | None:
    """Return a descriptor of the terminal that never waits; None if it is none, or not found."""
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
