"""The heartbeat thread pings for a busy loop, but not for a hung one or inside a packet."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from coordination.client.heartbeat import PING_PACKET, Heartbeat

TIMEOUT_MS = 6000


class FakeTransport(asyncio.WriteTransport):
    """Transport with one end of a socket pair."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__()
        self._end = end
        self.buffered_bytes = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._end if name == "socket" else default

    def get_write_buffer_size(self) -> int:
        return self.buffered_bytes


class Bench:
    """Heartbeat with a clock set by the test; its thread is not started."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.loop = asyncio.new_event_loop()
        self.heartbeat = Heartbeat(self.loop, TIMEOUT_MS, clock=lambda: self.now_s)
        self.transport = FakeTransport(self.ours)
        self.heartbeat.attach(self.transport, TIMEOUT_MS)

    def look(self) -> bytes:
        with self.heartbeat.lock:
            self.heartbeat._ping_if_late()
        try:
            return self.theirs.recv(1000)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.heartbeat.detach()
        self.loop.close()
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


def test_the_thread_pings_for_a_late_loop(bench: Bench) -> None:
    bench.now_s += 1.9
    assert bench.look() == b""
    bench.now_s += 0.2
    assert bench.look() == PING_PACKET
    assert bench.look() == b"", "the next ping is due after another third"


def test_the_thread_does_not_ping_for_a_loop_that_sends(bench: Bench) -> None:
    bench.now_s += 1.9
    bench.heartbeat.on_sent()
    bench.now_s += 1.9
    bench.heartbeat._turned_s = bench.now_s
    assert bench.look() == b""


def test_the_thread_does_not_ping_for_a_hung_loop(bench: Bench) -> None:
    bench.now_s += 3.0
    assert bench.look() == b""


def test_no_ping_is_sent_inside_another_packet(bench: Bench) -> None:
    bench.now_s += 2.5
    bench.transport.buffered_bytes = 5
    assert bench.look() == b""


def test_no_ping_is_sent_on_a_detached_connection(bench: Bench) -> None:
    bench.heartbeat.detach()
    bench.now_s += 2.5
    assert bench.look() == b""
