"""Checks of connections, without sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from broker.config.listener import Listener
from broker.network.limits import NetworkLimits
from broker.network.processor import Processor
from broker.network.reply import Reply
from broker.network.request_channel import RequestChannel
from broker.network.socket_server import (
    MAX_IDLE_CHECK_INTERVAL_S,
    STALL_CHECK_INTERVAL_S,
    SocketServer,
)
from tests.unit.broker.network_fakes import FakeLoop, FakeTimer


class TimedLoop(FakeLoop):
    """Records its timers."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[tuple[float, Callable[..., object]]] = []

    def call_later(self, delay_s: float, callback: Callable[..., object]) -> FakeTimer:
        self.timers.append((delay_s, callback))
        return FakeTimer(delay_s, callback)


class FakeConnection:
    """Records its checks."""

    client_host = "10.0.0.1"
    is_counted = False

    def __init__(self, listener_name: str = "A") -> None:
        self.listener_name = listener_name
        self.idle_checks: list[float] = []
        self.stall_checks: list[float] = []

    def drop_if_idle(self, max_idle_s: float) -> None:
        self.idle_checks.append(max_idle_s)

    def drop_if_stalled(self, since_s: float) -> None:
        self.stall_checks.append(since_s)


class World:
    def __init__(self, **limits: Any) -> None:
        self.loop = TimedLoop()
        network_limits = NetworkLimits(**limits)
        channel = RequestChannel(self.loop.as_loop, lambda _request: Reply(), network_limits)
        self.server = SocketServer([Listener("A", "", 9092)], network_limits, channel)
        self.connection = FakeConnection()
        assert self.server.on_opened(cast(Processor, self.connection)) is None

    def check_idle(self) -> float:
        """Run one check; return the delay of the next one."""
        self.server._check_idle()
        return self.loop.timers[-1][0]

    def check_stalled(self) -> float:
        self.server._check_stalled()
        return self.loop.timers[-1][0]


@pytest.mark.parametrize(
    ("idle_ms", "interval_s"), [(100, 0.025), (600_000, MAX_IDLE_CHECK_INTERVAL_S)]
)
def test_connections_are_checked_often_enough(idle_ms: int, interval_s: float) -> None:
    world = World(connections_max_idle_ms=idle_ms)
    assert world.check_idle() == interval_s
    assert world.connection.idle_checks == [idle_ms / 1000]


def test_without_a_limit_no_connection_is_idle() -> None:
    world = World(connections_max_idle_ms=None)
    assert world.check_idle() == MAX_IDLE_CHECK_INTERVAL_S
    assert world.connection.idle_checks == []


def test_stalled_requests_are_checked_only_while_memory_is_contended() -> None:
    world = World()
    memory = world.server._network.memory
    assert world.check_stalled() == STALL_CHECK_INTERVAL_S
    assert world.connection.stall_checks == []
    began_s = world.loop.now_s

    def waiter() -> None:
        raise AssertionError("there is no memory")

    for short_since_s in (began_s, began_s + 20):
        memory.wait(waiter, memory.reservation(1, is_control_plane=False), 1)
        world.loop.now_s = short_since_s
        world.check_stalled()
        world.loop.now_s += 7
        assert world.check_stalled() == STALL_CHECK_INTERVAL_S
        memory.stop_waiting(waiter)
        world.check_stalled()
    assert world.connection.stall_checks == [began_s] * 2 + [began_s + 20] * 2


def test_a_refused_connection_is_not_counted() -> None:
    world = World(max_connections=1)
    assert world.server.on_opened(cast(Processor, FakeConnection())) is not None
    assert world.server.connection_count == 1


def test_a_connection_refused_before_its_handshake_is_in_the_metrics() -> None:
    world = World(max_connections=1)
    assert world.server.admit("10.0.0.1", "A") is not None
    assert world.server.metrics.connections_refused == 1


@pytest.mark.parametrize(
    ("names", "open_count"), [(["BROKERS"], 1), (["BROKERS", "A"], 4)], ids=["shared", "own"]
)
def test_clients_cannot_keep_out_brokers_with_their_own_listener(
    names: list[str], open_count: int
) -> None:
    loop = TimedLoop()
    limits = NetworkLimits(max_connections=1)
    server = SocketServer(
        [Listener(name, "", 9092 + number) for number, name in enumerate(names)],
        limits,
        RequestChannel(loop.as_loop, lambda _request: Reply(), limits),
        inter_broker_listener_name="BROKERS",
    )
    assert server.on_opened(cast(Processor, FakeConnection(names[-1]))) is None
    for _ in range(3):
        server.on_opened(cast(Processor, FakeConnection("BROKERS")))
    assert server.on_opened(cast(Processor, FakeConnection(names[-1]))) is not None
    assert server.connection_count == open_count


def test_released_memory_wakes_waiters_once_in_the_next_turn() -> None:
    world = World(queued_max_request_bytes=100, socket_request_max_bytes=100)
    memory = world.server._network.memory
    woken: list[str] = []
    held = [memory.reservation(1, is_control_plane=True) for _ in range(2)]
    for each in held:
        assert memory.try_grow(each, 50)
    memory.wait(lambda: woken.append("waiter"), memory.reservation(1, is_control_plane=True), 50)
    for each in held:
        memory.release(each)
    assert woken == []
    world.loop.run()
    assert woken == ["waiter"]


def test_a_connection_accepted_just_before_the_stop_is_refused() -> None:
    world = World()
    world.server.stop_accepting()
    late = FakeConnection()
    assert world.server.on_opened(cast(Processor, late)) == "the broker is stopping"
    assert world.server.connection_count == 1
