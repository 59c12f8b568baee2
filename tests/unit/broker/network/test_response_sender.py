"""Parts are sent in order, coalesced, files without a copy, as far as the socket takes them."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import cast

import pytest

from broker.network.file_range import WINDOW_BYTES, FileRange, TruncatedRegionError
from broker.network.metrics import NetworkMetrics
from broker.network.response_sender import (
    REMAINDER_BYTES,
    SENDFILE_MIN_BYTES,
    TURN_BYTES,
    WRITE_BATCH_BYTES,
    ResponseSender,
)
from tests.stand_ins import takes_stand_in

FILE_BYTES = 6 * 1024 * 1024
CONTENT = bytes(range(251)) * (FILE_BYTES // 251 + 1)


@dataclass
class Region:
    file: BufferedReader
    position: int
    size_bytes: int

    @property
    def content(self) -> bytes:
        return CONTENT[self.position : self.position + self.size_bytes]


class SocketTransport:
    """A transport over one end of a socket pair, without a loop: the test is the client."""

    def __init__(self, *, extra: dict[str, object] | None = None) -> None:
        self.socket, self.client = socket.socketpair()
        self.socket.setblocking(False)
        self.client.setblocking(False)
        self.writes: list[int] = []
        self.held = b""
        self.on_full: Callable[[], None] = lambda: None
        self._extra = {"socket": self.socket} if extra is None else extra

    def get_extra_info(self, name: str) -> object:
        return self._extra.get(name)

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        # Each kind of transport interprets its limit differently.
        assert (high, low) == (1 if "sslcontext" in self._extra else 0, 0)

    def write(self, data: bytes) -> None:
        assert not self.held, "the sender must wait until the transport has sent all"
        self.writes.append(len(data))
        self.held = bytes(data)
        self.flush()
        if self.held:
            self.on_full()

    def flush(self) -> bool:
        """Send the held bytes; return whether none are left."""
        try:
            while self.held:
                self.held = self.held[self.socket.send(self.held) :]
        except BlockingIOError:
            pass
        return not self.held

    def receive(self) -> bytes:
        """Return the bytes in the client's socket."""
        received = bytearray()
        try:
            while True:
                received += self.client.recv(1 << 20)
        except BlockingIOError:
            return bytes(received)


class Output:
    """A sender, its transport and the client behind it."""

    def __init__(self, **arguments: dict[str, object]) -> None:
        self.transport = SocketTransport(**arguments)
        self.metrics = NetworkMetrics()
        self.reading_ahead: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.warm_count = 0
        self.sender = ResponseSender(
            cast(asyncio.Transport, self.transport),
            deque(),
            self.metrics,
            self.read_ahead,
            self.on_warm,
        )
        self.transport.on_full = self.sender.on_full
        self.sender.start()

    def read_ahead(self, read: Callable[[], None], on_end: Callable[[], None]) -> None:
        self.reading_ahead.append((read, on_end))

    def on_warm(self) -> None:
        self.warm_count += 1

    def receive_all(self) -> bytes:
        """Read like a client, and resume the transport whenever its buffer is empty."""
        received = bytearray()
        while True:
            chunk = self.transport.receive()
            received += chunk
            if self.sender.is_blocked and self.transport.flush():
                self.sender.on_drained()
            if not self.sender.is_blocked:
                self.sender.advance()
            if not chunk and not self.sender.parts and not self.sender.is_blocked:
                return bytes(received)

    def close(self) -> None:
        self.sender.close()
        self.transport.socket.close()
        self.transport.client.close()


@pytest.fixture
def output() -> Iterator[Output]:
    made = Output()
    yield made
    made.close()


@pytest.fixture
def copying() -> Iterator[Output]:
    """An output on a transport without a socket, like in a simulated loop."""
    made = Output(extra={})
    yield made
    made.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BufferedReader]:
    path = tmp_path_factory.mktemp("sender") / "log"
    path.write_bytes(CONTENT)
    with path.open("rb") as opened:
        yield opened


def test_bytes_of_many_responses_are_sent_in_one_write(output: Output) -> None:
    output.sender.send([b"one", bytearray(b"two"), memoryview(b"three")])
    assert output.transport.writes == [11]
    assert output.transport.receive() == b"onetwothree"


def test_a_small_region_is_written_together_with_its_header(
    output: Output, file: BufferedReader
) -> None:
    region = Region(file, 7, SENDFILE_MIN_BYTES - 1)
    output.sender.send([b"header", region, b"tail"])
    assert output.transport.writes == [6 + region.size_bytes + 4]
    assert output.receive_all() == b"header" + region.content + b"tail"
    assert output.metrics.sendfile_bytes == 0


def test_a_large_region_is_not_copied(output: Output, file: BufferedReader) -> None:
    region = Region(file, 7, SENDFILE_MIN_BYTES)
    output.sender.send([b"header", region, b"tail"])
    assert output.receive_all() == b"header" + region.content + b"tail"
    assert output.metrics.sendfile_bytes == region.size_bytes
    assert output.metrics.bytes_out == region.size_bytes + 10


def test_an_empty_region_sends_no_bytes(output: Output, file: BufferedReader) -> None:
    output.sender.send([b"header", Region(file, 7, 0), b"tail"])
    output.sender.send([Region(file, 7, 0)])
    assert output.receive_all() == b"headertail"


def test_a_full_socket_gets_a_small_remainder_and_then_files_again(
    output: Output, file: BufferedReader
) -> None:
    region = Region(file, 1, 3 * 1024 * 1024)
    output.sender.send([b"header", region, b"tail"])
    assert output.sender.is_blocked
    assert output.transport.writes == [6, REMAINDER_BYTES]
    assert output.receive_all() == b"header" + region.content + b"tail"
    assert output.metrics.sendfile_bytes > region.size_bytes // 2


def test_a_client_that_does_not_read_costs_one_batch(output: Output, file: BufferedReader) -> None:
    output.sender.send([Region(file, 0, FILE_BYTES) for _ in range(20)])
    for _ in range(100):
        output.sender.advance()
    assert output.sender.is_blocked
    assert len(output.transport.held) <= REMAINDER_BYTES


@pytest.mark.parametrize(
    "extra", [{}, {"socket": object(), "sslcontext": object()}], ids=["no socket", "TLS"]
)
def test_without_a_plain_socket_files_are_copied_in_batches(
    extra: dict[str, object], file: BufferedReader
) -> None:
    output = Output(extra=extra)
    region = Region(file, 1, 2 * 1024 * 1024)
    output.sender.send([b"header", region, b"tail"])
    assert output.receive_all() == b"header" + region.content + b"tail"
    assert output.metrics.sendfile_bytes == 0
    assert max(output.transport.writes) <= WRITE_BATCH_BYTES
    output.close()


@pytest.mark.parametrize("kind", ["output", "copying"])
def test_a_truncated_file_is_an_error_and_later_parts_are_not_sent(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    output: Output = request.getfixturevalue(kind)
    path = tmp_path / "short"
    path.write_bytes(b"x" * SENDFILE_MIN_BYTES)
    with path.open("rb") as opened:
        output.sender.send([Region(opened, 0, SENDFILE_MIN_BYTES)])
        with pytest.raises(TruncatedRegionError):
            output.sender.send([Region(opened, 1, SENDFILE_MIN_BYTES), b"the next response"])
    assert b"next" not in output.transport.receive()


def test_a_fast_reader_gets_only_its_share_of_a_turn(file: BufferedReader) -> None:
    """The socket would take all bytes, but the loop must serve the other connections too."""
    output = Output(extra={})
    output.transport.socket.close()
    output.transport.socket = cast(socket.socket, EndlessSocket())
    output.sender.send([Region(file, 0, FILE_BYTES), Region(file, 0, FILE_BYTES)])
    assert not output.sender.is_blocked
    assert TURN_BYTES <= output.metrics.bytes_out <= TURN_BYTES + WRITE_BATCH_BYTES
    assert output.sender.parts
    while output.sender.parts:
        output.sender.advance()
    assert output.metrics.bytes_out == 2 * FILE_BYTES
    output.transport.client.close()


@takes_stand_in
@pytest.mark.parametrize("size_bytes", [100, SENDFILE_MIN_BYTES, 3 * 1024 * 1024])
def test_a_thread_reads_cold_regions_before_they_are_sent(
    size_bytes: int, output: Output, file: BufferedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileRange, "_is_missing", lambda _each, _position: True)
    region = Region(file, 0, size_bytes)
    output.sender.send([b"header", region, b"tail"])
    received = bytearray()
    while output.sender.parts or output.sender.is_blocked:
        received += output.transport.receive()
        if output.transport.flush():
            output.sender.on_drained()
        if output.reading_ahead:
            assert output.sender.is_blocked
            written = len(output.transport.writes)
            output.sender.advance()
            assert len(output.transport.writes) == written, "nothing is sent meanwhile"
            read, on_end = output.reading_ahead.pop()
            read()
            on_end()
        output.sender.advance()
    received += output.transport.receive()
    assert received == b"header" + region.content + b"tail"
    windows = 1 + (size_bytes - 1) // WINDOW_BYTES
    assert output.warm_count == output.metrics.cold_reads == windows


@takes_stand_in
def test_without_a_socket_no_thread_reads_ahead(
    copying: Output, file: BufferedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulated loop must be deterministic."""
    monkeypatch.setattr(FileRange, "is_cold", lambda _each: True)
    region = Region(file, 0, 100)
    copying.sender.send([region])
    assert copying.receive_all() == region.content
    assert copying.reading_ahead == []


class EndlessSocket:
    """A socket that takes all bytes."""

    def send(self, data: bytes) -> int:
        return len(data)
