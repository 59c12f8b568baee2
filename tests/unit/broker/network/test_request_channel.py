"""The pump: order, limits, and isolation of failures."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from broker.network.limits import NetworkLimits
from broker.network.receive_memory import ReceiveMemoryExhaustedError
from broker.network.reply import Reply, ReplyState
from broker.network.request import Request
from broker.network.request_channel import (
    BATCH_BYTES,
    LONG_REQUEST_BYTES,
    LONG_REQUESTS_S,
    MAX_UNSENT_BYTES,
    SEND_BYTES,
    RequestChannel,
)
from broker.network.request_timing import UNTIMED_COUNT
from broker.security.principal import ANONYMOUS
from kafkawire.apis import ApiKey
from tests.unit.broker.network_fakes import FakeLoop, make_request


class FakeConnection:
    """Records the calls of the channel."""

    listener_name = "PLAINTEXT"
    client_host = "10.0.0.1"
    principal = ANONYMOUS
    session = None

    def __init__(self, channel: RequestChannel, *, is_control_plane: bool = False) -> None:
        self.number = 1
        self.channel = channel
        self.queue = channel.connect(self, is_control_plane=is_control_plane)
        self.replies: deque[Reply] = deque()
        self.is_read = True
        self.send_count = 0
        self.room_count = 0
        self.dropped: list[str] = []
        self.on_send: Callable[[], None] = lambda: None
        self.has_memory = True
        self.refused: list[str] = []

    def send_ready(self) -> None:
        self.send_count += 1
        self.on_send()
        while self.is_read and self.replies and self.replies[0].is_done:
            self.replies.popleft()
        if self.is_read and not self.replies:
            self.channel.on_sent(self.queue)

    def on_room(self) -> None:
        self.room_count += 1

    def mute(self, delay_s: float) -> None:
        raise AssertionError(f"the channel must not mute a connection ({delay_s} s)")

    def hold(self) -> None:
        raise AssertionError("the channel must not hold a connection")

    def renew(self, expires_at_s: float) -> None:
        raise AssertionError(f"the channel must not renew a session (to {expires_at_s})")

    def keep(self, request: Request) -> None:
        if not self.has_memory:
            raise ReceiveMemoryExhaustedError
        request.body = memoryview(bytearray(request.body))

    def refuse_input(self, reason: str) -> None:
        assert not self.has_memory, "everything can be kept"
        self.refused.append(reason)

    def drop(self, reason: str) -> None:
        self.dropped.append(reason)


class World:
    def __init__(self, limits: NetworkLimits | None = None, *, is_open: bool = True) -> None:
        self.loop = FakeLoop()
        self.handled: list[int] = []
        self.answer: Callable[[Request], Reply] = lambda _request: Reply("message")
        self.channel = RequestChannel(
            self.loop.as_loop, self._handle, limits or NetworkLimits(), is_open=is_open
        )

    def _handle(self, request: Request) -> Reply:
        self.handled.append(request.header.correlation_id)
        reply = self.answer(request)
        connection = request.connection
        assert isinstance(connection, FakeConnection)
        connection.replies.append(reply)
        return reply


@pytest.fixture
def world() -> World:
    return World()


def test_a_batch_is_handled_in_one_turn_and_each_connection_sends_once(world: World) -> None:
    connections = [FakeConnection(world.channel) for _ in range(3)]
    for number in range(9):
        world.channel.submit([make_request(connections[number % 3].queue, number)])
    assert world.handled == [], "nothing is handled inside the connection's read"
    world.loop.run_turn()
    assert world.handled == list(range(9))
    assert [connection.send_count for connection in connections] == [1, 1, 1]
    assert world.channel.is_empty


@pytest.mark.parametrize("api_key", [ApiKey.PRODUCE, ApiKey.HEARTBEAT])
def test_some_of_the_requests_of_a_frequent_api_are_timed(world: World, api_key: ApiKey) -> None:
    queue = FakeConnection(world.channel).queue
    frequent = [make_request(queue, number, api_key) for number in range(2 * UNTIMED_COUNT + 2)]
    others = [make_request(queue, number, ApiKey.FETCH) for number in range(UNTIMED_COUNT)]
    for request in itertools.chain.from_iterable(itertools.zip_longest(frequent, others)):
        world.channel.submit([request] if request else [])
    world.loop.run_turn()
    timed = [each.header.correlation_id for each in frequent if each.timing]
    assert timed == [0, UNTIMED_COUNT + 1], "requests of another API do not count"


def test_all_requests_of_a_rare_api_are_timed(world: World) -> None:
    queue = FakeConnection(world.channel).queue
    requests = [make_request(queue, number, ApiKey.JOIN_GROUP) for number in range(3)]
    world.channel.submit(requests)
    world.loop.run_turn()
    assert all(each.timing for each in requests)


def test_a_timed_request_notes_when_its_reply_is_complete(world: World) -> None:
    connection, reply = FakeConnection(world.channel), Reply()
    world.answer = lambda _request: reply
    request = make_request(connection.queue, 0, ApiKey.JOIN_GROUP)
    world.channel.submit([request])
    world.loop.run_turn()
    timing = request.timing
    assert timing is not None
    returned_at_s = timing.returned_at_s
    world.loop.pass_time(3.0)
    reply.complete("message")
    assert (timing.returned_at_s, timing.completed_at_s) == (returned_at_s, returned_at_s + 3)
    world.loop.run_turn()
    assert connection.send_count == 1


def test_control_plane_requests_come_first(world: World) -> None:
    client = FakeConnection(world.channel)
    controller = FakeConnection(world.channel, is_control_plane=True)
    world.channel.submit([make_request(client.queue, 1)])
    world.channel.submit([make_request(client.queue, 2, ApiKey.UPDATE_METADATA)])
    world.channel.submit([make_request(controller.queue, 3)])
    world.channel.submit([make_request(client.queue, 4, ApiKey.METADATA)])
    world.loop.run()
    assert world.handled == [2, 3, 1, 4]


def test_the_queue_has_a_limit() -> None:
    world = World(NetworkLimits(queued_max_requests=3))
    connection = FakeConnection(world.channel)
    for left in (2, 1, 0):
        world.channel.submit([make_request(connection.queue)])
        assert world.channel.free_count == left
    world.channel.submit([make_request(connection.queue, 0, ApiKey.LEADER_AND_ISR)])
    assert world.channel.free_count == 0
    world.loop.run()
    assert world.channel.free_count == 3


def test_a_connection_that_waits_for_room_is_called_once(world: World) -> None:
    first, second = FakeConnection(world.channel), FakeConnection(world.channel)
    world.channel.submit([make_request(first.queue)])
    world.channel.wait_for_room(first.queue)
    world.channel.wait_for_room(second.queue)
    assert (first.room_count, second.room_count) == (0, 0)
    world.loop.run()
    assert (first.room_count, second.room_count) == (1, 1)


def test_large_requests_are_spread_over_turns(world: World) -> None:
    connection = FakeConnection(world.channel)
    for number in range(3):
        request = make_request(connection.queue, number)
        request.body = memoryview(bytes(BATCH_BYTES))
        world.channel.submit([request])
    seen = []
    while not world.channel.is_empty:
        world.loop.run_turn()
        seen.append(list(world.handled))
    assert seen == [[0], [0, 1], [0, 1, 2]]


def long_request(
    connection: FakeConnection, number: int, api_key: ApiKey = ApiKey.PRODUCE
) -> Request:
    request = make_request(connection.queue, number, api_key)
    request.body = memoryview(bytearray(LONG_REQUEST_BYTES + 1))
    request.size_bytes = len(request.body)
    return request


def test_short_requests_wait_for_at_most_one_long_request(world: World) -> None:
    clients = [FakeConnection(world.channel) for _ in range(3)]
    other = FakeConnection(world.channel)

    def answer(request: Request) -> Reply:
        if request.body:
            world.loop.now_s += 2 * LONG_REQUESTS_S
            if request.header.correlation_id == 0:
                world.channel.submit([make_request(other.queue, 10)])
        return Reply("message")

    world.answer = answer
    for number, client in enumerate(clients):
        world.channel.submit([long_request(client, number)])
    world.channel.submit([make_request(other.queue, 9)])
    world.loop.run()
    assert world.handled == [9, 0, 10, 1, 2]
    assert world.channel.free_count == NetworkLimits().queued_max_requests


def test_connections_take_turns_with_their_long_requests(world: World) -> None:
    greedy, modest = FakeConnection(world.channel), FakeConnection(world.channel)
    world.channel.submit([long_request(greedy, number) for number in range(4)])
    world.channel.submit([long_request(modest, 10), make_request(modest.queue, 11)])
    world.loop.run()
    assert world.handled == [0, 10, 1, 11, 2, 3]


def test_long_requests_share_a_turn_while_there_is_time(world: World) -> None:
    client = FakeConnection(world.channel)
    world.channel.submit([long_request(client, number) for number in range(5)])
    world.loop.run_turn()
    assert world.handled == [0, 1, 2, 3, 4]


def test_requests_of_one_connection_are_handled_in_their_order(world: World) -> None:
    client, other = FakeConnection(world.channel), FakeConnection(world.channel)
    world.channel.submit(
        [make_request(client.queue, 1), long_request(client, 2), make_request(client.queue, 3)]
    )
    world.channel.submit([make_request(other.queue, 4)])
    world.loop.run()
    world.channel.submit([make_request(client.queue, 5)])
    world.channel.submit([long_request(other, 6)])
    world.loop.run()
    assert world.handled == [1, 4, 2, 3, 5, 6]


def test_a_long_request_waits_for_the_response_to_the_previous_one(world: World) -> None:
    client, other = FakeConnection(world.channel), FakeConnection(world.channel)
    replies = {1: Reply(), 2: Reply("message"), 4: Reply("message")}
    world.answer = lambda request: replies[request.header.correlation_id]
    arena = bytearray(b"2" * (LONG_REQUEST_BYTES + 1))
    requests = [long_request(client, number, ApiKey.CREATE_TOPICS) for number in (1, 2)]
    requests[1].body = memoryview(arena)
    world.channel.submit(requests)
    world.channel.submit([long_request(other, 4)])
    world.loop.run()
    assert world.handled == [1, 4]
    assert world.channel.is_empty, "nothing keeps the arena from its next use"
    arena[:] = b"x" * len(arena)
    assert world.channel.free_count == NetworkLimits().queued_max_requests, "others may wait"
    replies[1].complete("message")
    world.loop.run()
    assert world.handled == [1, 4, 2]
    assert bytes(requests[1].body) == b"2" * len(arena)
    assert world.channel.free_count == NetworkLimits().queued_max_requests


@pytest.mark.parametrize(
    ("api_key", "handled"),
    [(ApiKey.PRODUCE, [1, 2]), (ApiKey.FETCH, [1, 2]), (ApiKey.CREATE_TOPICS, [1])],
)
def test_long_produce_and_fetch_requests_do_not_wait_for_each_other(
    world: World, api_key: ApiKey, handled: list[int]
) -> None:
    client = FakeConnection(world.channel)
    world.answer = lambda _request: Reply()
    world.channel.submit([long_request(client, number, api_key) for number in (1, 2)])
    world.loop.run()
    assert world.handled == handled


def test_no_request_is_handled_behind_one_that_waits(world: World) -> None:
    """Otherwise one waiting fetch would keep many responses in memory."""
    client, waiting = FakeConnection(world.channel), Reply()
    world.answer = lambda request: waiting if request.header.correlation_id == 1 else Reply("done")
    world.channel.submit([make_request(client.queue, 1, ApiKey.JOIN_GROUP)])
    world.channel.submit([make_request(client.queue, 2, ApiKey.HEARTBEAT)])
    world.channel.submit([make_request(client.queue, 3, ApiKey.HEARTBEAT)])
    world.channel.submit([long_request(client, 4)])
    world.channel.submit([make_request(client.queue, 5)])
    world.loop.run()
    world.channel.submit([make_request(client.queue, 6)])
    world.loop.run()
    assert world.handled == [1]
    assert world.channel.is_empty, "none of them is left in the arenas"
    assert world.channel.free_count == NetworkLimits().queued_max_requests, "others may wait"
    waiting.complete("done")
    world.loop.run()
    assert world.handled == [1, 2, 3, 4, 5, 6]
    assert world.channel.free_count == NetworkLimits().queued_max_requests


@pytest.mark.parametrize("behind", [ApiKey.DESCRIBE_CONFIGS, ApiKey.HEARTBEAT, ApiKey.PRODUCE])
def test_a_fetch_may_follow_one_that_waits_but_nothing_else_may(
    world: World, behind: ApiKey
) -> None:
    client = FakeConnection(world.channel)
    world.answer = lambda _request: Reply()
    for number, api_key in enumerate((ApiKey.FETCH, ApiKey.FETCH, ApiKey.FETCH, behind)):
        world.channel.submit([make_request(client.queue, number, api_key)])
        world.loop.run()
    assert world.handled == [0, 1]
    assert [each.header.correlation_id for each in client.queue.waiting] == [2, 3]


def test_a_produce_request_does_not_overtake_one_that_waits(world: World) -> None:
    client = FakeConnection(world.channel)
    world.answer = lambda _request: Reply()
    apis = (ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.PRODUCE)
    world.channel.submit([make_request(client.queue, *each) for each in enumerate(apis)])
    world.loop.run()
    assert world.handled == [0, 1]
    for reply in client.replies.copy():
        reply.complete("done")
    world.loop.run()
    assert world.handled == [0, 1, 2]
    client.replies[0].complete("done")
    world.loop.run()
    assert world.handled == [0, 1, 2, 3]


def test_large_responses_are_made_one_at_a_time(world: World) -> None:
    """A client that does not read them makes the broker keep one."""
    client, other = FakeConnection(world.channel), FakeConnection(world.channel)
    world.channel.submit(
        [make_request(client.queue, number, ApiKey.DESCRIBE_CONFIGS) for number in range(3)]
    )
    client.is_read = False
    world.channel.submit([make_request(other.queue, 10)])
    world.loop.run()
    assert world.handled == [10, 0]
    client.is_read = True
    world.channel.mark_ready(client.queue)
    world.loop.run()
    assert world.handled == [10, 0, 1, 2]


def test_small_responses_are_made_up_to_a_limit(world: World) -> None:
    client = FakeConnection(world.channel)
    client.is_read = False
    requests = [make_request(client.queue, number, ApiKey.HEARTBEAT) for number in range(20)]
    for request in requests:
        request.body = memoryview(bytes(1024))
        request.size_bytes = 1024
    world.channel.submit(requests)
    world.loop.run()
    assert world.handled == list(range(MAX_UNSENT_BYTES // 1024 + 1))
    client.is_read = True
    world.channel.mark_ready(client.queue)
    world.loop.run()
    assert world.handled == list(range(20))


def test_requests_that_cannot_be_kept_are_refused_with_all_later_ones(world: World) -> None:
    client, waiting = FakeConnection(world.channel), Reply()
    world.answer = lambda request: waiting if request.header.correlation_id == 0 else Reply("done")
    requests = [make_request(client.queue, number, ApiKey.HEARTBEAT) for number in range(6)]
    world.channel.submit(requests[:2])
    world.loop.run()
    client.has_memory = False
    world.channel.submit(requests[2:4])
    assert len(client.refused) == 1
    client.has_memory = True
    world.channel.submit(requests[4:])
    waiting.complete("done")
    world.loop.run()
    assert world.handled == [0, 1], "no later one overtakes the refused one"
    states = [each.reply.state for each in requests[2:]]
    assert states == [ReplyState.CLOSE] * 4
    assert world.channel.free_count == NetworkLimits().queued_max_requests


def test_short_requests_that_cannot_be_kept_are_refused_with_all_later_ones(world: World) -> None:
    client = FakeConnection(world.channel)
    client.has_memory = False
    world.answer = lambda _request: Reply()
    requests = [make_request(client.queue, number, ApiKey.HEARTBEAT) for number in range(3)]
    world.channel.submit(requests)
    world.loop.run()
    assert (world.handled, len(client.refused)) == ([0], 1)
    assert [each.reply.state for each in requests[1:]] == [ReplyState.CLOSE] * 2
    assert world.channel.free_count == NetworkLimits().queued_max_requests


@pytest.mark.parametrize("reply", [Reply(), Reply("message")], ids=["blocked", "in line"])
def test_only_produce_requests_of_a_closed_connection_are_handled(
    world: World, reply: Reply
) -> None:
    client, other = FakeConnection(world.channel), FakeConnection(world.channel)
    released: list[str] = []

    def answer(request: Request) -> Reply:
        world.loop.now_s += LONG_REQUESTS_S
        return reply if request.header.correlation_id == 1 else Reply.none()

    world.answer = answer
    requests = [
        long_request(client, 1, ApiKey.CREATE_TOPICS),
        long_request(client, 2, ApiKey.CREATE_TOPICS),
        long_request(client, 3, ApiKey.PRODUCE),
    ]
    requests[1].release = lambda: released.append("buffer")
    world.channel.submit(requests)
    world.loop.run_turn()
    assert world.handled == [1]
    world.channel.close(client.queue)
    world.channel.submit([long_request(other, 4)])
    world.loop.run()
    assert (sorted(world.handled), released) == ([1, 3, 4], ["buffer"])
    assert (client.queue.waiting, client.queue.is_parked) == ([], False)
    assert world.channel.free_count == NetworkLimits().queued_max_requests


def test_a_closed_connection_without_requests_is_skipped(world: World) -> None:
    client, other = FakeConnection(world.channel), FakeConnection(world.channel)
    world.channel.submit([long_request(client, 1, ApiKey.CREATE_TOPICS)])
    world.channel.submit([long_request(other, 2)])
    world.channel.close(client.queue)
    world.loop.run()
    assert world.handled == [2]
    assert world.channel.free_count == NetworkLimits().queued_max_requests


def test_a_cancelled_reply_does_not_block_later_requests(world: World) -> None:
    client, reply = FakeConnection(world.channel), Reply()
    reply.cancel()
    world.answer = lambda _request: reply
    world.channel.submit([long_request(client, n, ApiKey.CREATE_TOPICS) for n in (1, 2)])
    world.loop.run()
    assert world.handled == [1, 2]
    assert world.channel.free_count == NetworkLimits().queued_max_requests


def test_the_request_after_a_failed_long_one_runs_in_the_next_turn(world: World) -> None:
    bad, good = FakeConnection(world.channel), FakeConnection(world.channel)

    def answer(request: Request) -> Reply:
        assert request.connection is good, "a bug"
        return Reply("message")

    world.answer = answer
    world.channel.submit([long_request(bad, 1)])
    world.channel.submit([long_request(good, 2)])
    with capture_logs():
        world.loop.run()
    assert (len(bad.dropped), good.send_count, bad.queue.waiting) == (1, 1, [])


def test_arenas_are_recycled_only_when_no_request_in_them_waits(world: World) -> None:
    recycled_at: list[int] = []
    world.channel.on_arenas_unused(lambda: recycled_at.append(len(world.handled)))
    connection = FakeConnection(world.channel)
    for number in range(2):
        request = make_request(connection.queue, number, ApiKey.UPDATE_METADATA)
        request.body = memoryview(bytes(BATCH_BYTES))
        world.channel.submit([request])
    world.loop.run()
    assert recycled_at == [2]


def test_a_line_of_long_requests_leaves_the_arenas_after_each_turn(world: World) -> None:
    bodies: list[bytes] = []
    arena = bytearray(LONG_REQUEST_BYTES + 1)

    def answer(request: Request) -> Reply:
        world.loop.now_s += LONG_REQUESTS_S
        bodies.append(bytes(request.body))
        return Reply("message")

    def recycle() -> None:
        recycled_at.append(len(bodies))
        arena[:] = b"x" * len(arena)

    recycled_at: list[int] = []
    world.answer = answer
    world.channel.on_arenas_unused(recycle)
    client, other = FakeConnection(world.channel), FakeConnection(world.channel)
    for connection in (client, other, client):
        request = long_request(connection, 1)
        request.body = memoryview(arena)
        world.channel.submit([request])
    world.loop.run()
    assert bodies == [bytes(len(arena))] * 3
    assert recycled_at == [1, 2, 3]


def test_a_line_of_long_requests_stays_in_the_arenas_without_memory(world: World) -> None:
    unused_at: list[int] = []
    world.channel.on_arenas_unused(lambda: unused_at.append(len(world.handled)))

    def answer(_request: Request) -> Reply:
        world.loop.now_s += LONG_REQUESTS_S
        return Reply("message")

    world.answer = answer
    client = FakeConnection(world.channel)
    client.has_memory = False
    world.channel.submit([long_request(client, number) for number in range(3)])
    world.loop.run()
    assert (world.handled, unused_at) == ([0, 1, 2], [3])


def test_a_buffer_is_released_when_its_handler_has_returned(world: World) -> None:
    released: list[str] = []

    def handle(_request: Request) -> Reply:
        assert released == []
        return Reply()

    world.answer = handle
    request = make_request(FakeConnection(world.channel).queue)
    request.body = memoryview(bytearray(b"large"))
    request.release = lambda: released.append("buffer")
    world.channel.submit([request])
    world.loop.run()
    assert released == ["buffer"]
    assert not request.body, "a request that waits holds nothing that is not charged"


def test_a_reply_that_is_completed_by_another_handler_is_sent_after_it(world: World) -> None:
    waiting, waking = FakeConnection(world.channel), FakeConnection(world.channel)
    parked = Reply()
    sent_during_handler: list[int] = []

    def handle(request: Request) -> Reply:
        if request.connection is waiting:
            return parked
        parked.complete("woken")
        sent_during_handler.append(waiting.send_count)
        return Reply("message")

    world.answer = handle
    world.channel.submit([make_request(waiting.queue)])
    world.loop.run()
    assert waiting.send_count == 0
    world.channel.submit([make_request(waking.queue)])
    world.loop.run_turn()
    assert sent_during_handler == [0]
    assert (waiting.send_count, waking.send_count) == (1, 1)


def test_a_reply_that_is_completed_outside_a_turn_is_sent_in_the_next(world: World) -> None:
    connection, reply = FakeConnection(world.channel), Reply()
    world.answer = lambda _request: reply
    world.channel.submit([make_request(connection.queue)])
    world.loop.run()
    reply.complete("late")
    assert connection.send_count == 0
    world.loop.run()
    assert connection.send_count == 1


def test_a_failing_handler_closes_only_its_own_connection(world: World) -> None:
    bad, good = FakeConnection(world.channel), FakeConnection(world.channel)
    released: list[str] = []

    def handle(request: Request) -> Reply:
        if request.connection is bad:
            raise RuntimeError("a bug")
        return Reply("message")

    world.answer = handle
    failing = make_request(bad.queue, 1)
    failing.release = lambda: released.append("buffer")
    world.channel.submit([failing])
    world.channel.submit([make_request(good.queue, 2)])
    with capture_logs() as logs:
        world.loop.run()
    assert (len(bad.dropped), good.dropped, good.send_count) == (1, [], 1)
    assert [(each["event"], each["log_level"]) for each in logs] == [("connection.failed", "error")]
    assert logs[0]["exc_info"]
    assert released == ["buffer"]
    assert world.channel.metrics.handler_failures == 1


def test_a_connection_that_fails_to_send_does_not_stop_the_others(world: World) -> None:
    connections = [FakeConnection(world.channel) for _ in range(3)]
    connections[1].on_send = lambda: 1 // 0  # type: ignore[assignment]
    for connection in connections:
        world.channel.submit([make_request(connection.queue)])
    with capture_logs():
        world.loop.run()
    assert [connection.send_count for connection in connections] == [1, 1, 1]
    assert [len(connection.dropped) for connection in connections] == [0, 1, 0]


def test_a_connection_with_more_to_send_continues_in_the_next_turn(world: World) -> None:
    connection = FakeConnection(world.channel)
    connection.on_send = lambda: (
        world.channel.mark_ready(connection.queue) if connection.send_count < 3 else None
    )
    world.channel.submit([make_request(connection.queue)])
    for count in (1, 2, 3, 3):
        world.loop.run_turn()
        assert connection.send_count == count


def test_large_responses_are_spread_over_turns(world: World) -> None:
    connections = [FakeConnection(world.channel) for _ in range(4)]

    def send() -> None:
        world.channel.metrics.bytes_out += SEND_BYTES

    for connection in connections:
        connection.on_send = send
        world.channel.submit([make_request(connection.queue)])
    seen = []
    for _ in range(3):
        world.loop.run_turn()
        seen.append([connection.send_count for connection in connections])
    assert seen == [[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]


def test_a_failed_step_of_a_connection_is_resumed(world: World) -> None:
    connection = FakeConnection(world.channel)
    left = [1, 0, 1]

    def step() -> None:
        while left:
            1 // left.pop(0)

    with capture_logs():
        world.channel.attempt(connection.queue, step)
    assert left == []
    assert len(connection.dropped) == 1


def test_a_request_has_the_listener_and_the_client_of_its_connection(world: World) -> None:
    request = make_request(FakeConnection(world.channel).queue)
    assert (request.listener_name, request.client_host) == ("PLAINTEXT", "10.0.0.1")


def test_a_keyboard_interrupt_is_not_swallowed(world: World) -> None:
    def handle(_request: Request) -> Reply:
        raise KeyboardInterrupt

    world.answer = handle
    world.channel.submit([make_request(FakeConnection(world.channel).queue)])
    with pytest.raises(KeyboardInterrupt):
        world.loop.run()


def test_a_channel_accepts_only_early_requests_before_it_is_open() -> None:
    world = World(is_open=False)
    connection = FakeConnection(world.channel)
    for number, api_key in enumerate((ApiKey.API_VERSIONS, ApiKey.LEADER_AND_ISR)):
        world.channel.submit([make_request(connection.queue, number, api_key)])
    with pytest.raises(AssertionError, match="outside the arenas"):
        world.channel.submit([make_request(connection.queue, 2, ApiKey.PRODUCE)])
    world.loop.run()
    assert sorted(world.handled) == [0, 1]


def test_connections_that_wait_for_the_opening_are_called_once() -> None:
    world = World(is_open=False)
    connection = FakeConnection(world.channel)
    world.channel.wait_for_opening(connection.queue)
    world.channel.submit([make_request(connection.queue, 1, ApiKey.API_VERSIONS)])
    world.loop.run()
    assert connection.room_count == 0
    world.channel.open()
    world.loop.run()
    world.channel.submit([make_request(connection.queue, 2, ApiKey.PRODUCE)])
    world.loop.run()
    assert (connection.room_count, world.handled) == (1, [1, 2])
