"""Responses are complete and in request order for any behaviour of clients, handlers, sockets."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from broker.network.limits import NetworkLimits
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Request
from kafkawire.apis import ApiKey
from tests.unit.broker.network_fakes import Client, World, request_frame

CLIENTS = 3
MUTE_S = 1.0
STEPS = 400
LIMITS = NetworkLimits(
    max_in_flight_requests_per_connection=4,
    queued_max_requests=5,
    socket_request_max_bytes=300_000,
    queued_max_request_bytes=300_000,
)


def body_of(number: int) -> bytes:
    """Return the body of request `number` and of its response; some are long or large."""
    size = 100_000 + number if number % 17 == 0 else 5_000 if number % 5 == 0 else number % 50
    return bytes([number % 256]) * size


def api_of(number: int) -> ApiKey:
    """Return the API of request `number`; a long OffsetCommit request blocks the next one."""
    return ApiKey.OFFSET_COMMIT if number % 2 else ApiKey.PRODUCE


class Peer:
    """One client: its requests, and the expected responses."""

    def __init__(self, client: Client, first: int) -> None:
        self.client = client
        self.next_number = first
        self.unsent = b""
        self.expected: list[int] = []

    def ask(self) -> None:
        number = self.next_number
        self.unsent += request_frame(number, body_of(number), api_of(number))
        self.next_number += 1

    @property
    def is_idle(self) -> bool:
        """Whether all requests are sent, and the broker waits for more."""
        return not self.unsent and self.client.transport.is_reading

    def deliver(self, limit_bytes: int) -> None:
        taken = self.client.send(self.unsent[:limit_bytes], 40_000)
        self.unsent = self.unsent[taken:]


class Story:
    """A random run of several clients against one channel."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.world = World(LIMITS, self.handle, is_open=False)
        self.peers = [Peer(self.world.connect(), 1000 * n) for n in range(CLIENTS)]
        self.active = list(self.peers)
        self.parked: list[tuple[int, Reply]] = []
        self.steps: list[Callable[[], None]] = [
            self.ask, self.ask, self.deliver, self.deliver, self.deliver, self.complete,
            self.complete, self.read, self.run_turn, self.run_turn, self.stop_reading,
            self.pass_time, self.open,
        ]  # fmt: skip

    def handle(self, request: Request) -> Reply:
        number = request.header.correlation_id
        assert bytes(request.body) == body_of(number), "the body was overwritten"
        kind = self.dice.randrange(10)
        if kind == 9:
            request.connection.mute(MUTE_S)
        if kind == 0:
            return Reply.none()
        self.peers[number // 1000].expected.append(number)
        if kind < 5:
            return Reply(EncodedMessage(body_of(number)))
        reply = Reply()
        self.parked.append((number, reply))
        return reply

    def ask(self) -> None:
        self.dice.choice(self.active).ask()

    def deliver(self) -> None:
        self.dice.choice(self.active).deliver(self.dice.choice([1, 5, 60, 5_000, 200_000]))

    def complete(self) -> None:
        if self.parked:
            number, reply = self.parked.pop(self.dice.randrange(len(self.parked)))
            reply.complete(EncodedMessage(body_of(number)))

    def read(self) -> None:
        self.dice.choice(self.active).client.transport.drain(self.dice.choice([3, 1_000, 150_000]))

    def stop_reading(self) -> None:
        self.dice.choice(self.active).client.transport.room = 0

    def run_turn(self) -> None:
        self.world.loop.run_turn()

    def open(self) -> None:
        if not self.world.channel.is_open:
            self.world.channel.open()

    def pass_time(self) -> None:
        self.world.loop.pass_time(MUTE_S / 2)

    def check(self) -> None:
        for peer in self.peers:
            assert len(peer.client.processor._in_flight) <= 4
        # Requests behind a blocked one do not count, until it is answered.
        assert -4 * CLIENTS < self.world.channel.free_count <= 5
        assert self.world.memory.kept_bytes <= LIMITS.receive_memory_bytes

    def finish(self) -> None:
        """Let all clients and handlers read, send and complete the rest."""
        self.open()
        for _ in range(10_000):
            self.pass_time()
            for peer in self.active:
                peer.client.transport.drain()
                peer.deliver(1 << 30)
            while self.parked:
                self.complete()
            self.world.loop.run()
            if not self.parked and all(peer.is_idle for peer in self.active):
                return
        raise AssertionError("it never ends")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_responses_are_sent_complete_and_in_order(seed: int) -> None:
    story = Story(random.Random(seed))
    with capture_logs() as logs:
        for _ in range(STEPS):
            story.dice.choice(story.steps)()
            story.check()
        story.finish()
    assert logs == []
    for peer in story.peers:
        assert [number for number, _ in peer.client.responses] == peer.expected
        assert all(body == body_of(number) for number, body in peer.client.responses)
        assert peer.client.transport.is_reading
    assert len(story.world.handled) == sum(peer.next_number % 1000 for peer in story.peers) > 20
    assert (story.world.memory.reserved_bytes, story.world.memory.kept_bytes) == (0, 0)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_connection_lost_at_any_moment_leaks_nothing_and_affects_no_other(seed: int) -> None:
    story = Story(random.Random(seed))
    lost, *others = story.peers
    with capture_logs() as logs:
        for step in range(STEPS):
            if step == STEPS // 2:
                lost.client.transport.abort()
                story.active.remove(lost)
            story.dice.choice(story.steps)()
        story.world.loop.run()
        still_parked = [reply for number, reply in story.parked if number < 1000]
        story.finish()
    assert logs == []
    assert all(reply.cancelled for reply in still_parked)
    assert not lost.client.processor._in_flight
    assert story.world.owner.connections == [peer.client.processor for peer in others]
    for peer in others:
        assert [number for number, _ in peer.client.responses] == peer.expected
    assert (story.world.memory.reserved_bytes, story.world.memory.kept_bytes) == (0, 0)
