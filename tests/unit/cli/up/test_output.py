"""Reports wait for room without holding up the event loop: `ottla.cli.up.output`."""

import asyncio
import contextlib
import fcntl
import os
import sys
import termios
from collections.abc import Iterator

import pytest

from ottla.cli.up import output
from ottla.cli.up.output import MAX_WAITING, RETRY_S, outputs_without_waiting

TIMEOUT_S = 10


def left_out(count: int) -> str:
    return f"{count} left out\n"


class Pipe:
    """Standard output and standard error as a pipe."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reader, self.writer = os.pipe()
        os.set_blocking(reader, False)
        self.reader: int | None = reader
        self.stream = os.fdopen(os.dup(self.writer), "w")
        self._monkeypatch = monkeypatch

    def outputs(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Replace both streams. This is no work of the fixture: pytest replaces them after it."""
        self._monkeypatch.setattr(sys, "stdout", self.stream)
        self._monkeypatch.setattr(sys, "stderr", self.stream)
        return outputs_without_waiting(left_out, left_out)

    def fill(self) -> int:
        """Leave no room, and return the number of bytes that fill it."""
        return os.write(self.writer, bytes(fcntl.fcntl(self.writer, fcntl.F_GETPIPE_SZ)))

    def read(self) -> bytes:
        """Return all bytes in the pipe."""
        assert self.reader is not None
        return os.read(self.reader, 1 << 20)

    def leave(self) -> None:
        """Close the end of the reader."""
        assert self.reader is not None
        os.close(self.reader)
        self.reader = None

    def close(self) -> None:
        self.stream.close()
        os.close(self.writer)
        if self.reader is not None:
            os.close(self.reader)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    pipe = Pipe(monkeypatch)
    yield pipe
    pipe.close()


async def test_lines_to_a_reader_are_written_at_once(pipe: Pipe) -> None:
    async with pipe.outputs():
        sys.stdout.write("one\n")
        sys.stderr.write("two\n")
        assert pipe.read() == b"one\ntwo\n"


async def test_lines_wait_for_a_slow_reader_and_the_oldest_are_left_out(pipe: Pipe) -> None:
    count = pipe.fill()
    async with asyncio.timeout(TIMEOUT_S), pipe.outputs():
        for number in range(MAX_WAITING + 2):
            sys.stdout.write(f"{number}\n")
        assert pipe.read() == bytes(count)
    lines = pipe.read().decode().splitlines()
    assert lines == ["2 left out", *map(str, range(2, MAX_WAITING + 2))]


async def test_a_long_text_is_written_whole(pipe: Pipe) -> None:
    text = "x" * 1_000_000
    async with asyncio.timeout(TIMEOUT_S), pipe.outputs():
        sys.stdout.write(text + "\n")
        shown = b""
        while not shown.endswith(b"\n"):
            # The loop writes the next part once there is room.
            await asyncio.sleep(RETRY_S)
            with contextlib.suppress(BlockingIOError):
                shown += pipe.read()
    assert shown == text.encode() + b"\n"


async def test_an_end_does_not_wait_for_a_reader_that_never_reads(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "END_TIMEOUT_S", RETRY_S)
    count = pipe.fill()
    async with asyncio.timeout(TIMEOUT_S):
        async with pipe.outputs():
            sys.stdout.write("never read\n")
    assert pipe.read() == bytes(count)
    assert sys.stdout is pipe.stream


async def test_a_reader_that_has_left_is_an_error_of_each_write(pipe: Pipe) -> None:
    async with pipe.outputs():
        pipe.leave()
        for _ in range(2):
            with pytest.raises(BrokenPipeError):
                sys.stdout.write("unread\n")


async def test_a_stopped_terminal_shows_the_lines_once_it_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-S stops a terminal, and Ctrl-Q lets it continue."""
    controlling, terminal = os.openpty()
    with (
        os.fdopen(controlling, "rb", buffering=0) as screen,
        os.fdopen(terminal, "w") as stream,
    ):
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        async with asyncio.timeout(TIMEOUT_S), outputs_without_waiting(left_out, left_out):
            assert sys.stdout.isatty()
            termios.tcflow(terminal, termios.TCOOFF)
            sys.stdout.write("a line\n")
            termios.tcflow(terminal, termios.TCOON)
        assert screen.read(100) == b"a line\r\n"
