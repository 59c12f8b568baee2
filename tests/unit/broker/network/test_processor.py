"""One connection, on a loop and a socket in memory."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import pytest
from structlog.testing import capture_logs

from broker.network import processor
from broker.network.connection_state import MAX_KEPT_S, MIN_PROGRESS_BYTES
from broker.network.frame_receiver import LARGE_FRAME_BYTES
from broker.network.limits import NetworkLimits
from broker.network.processor import MAX_IN_FLIGHT_BYTES
from broker.network.receive_memory import BLOCKED_REQUESTS_SHARE, SMALL_FRAME_BYTES
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Request
from broker.network.request_channel import LONG_REQUEST_BYTES
from broker.network.response import BATCH_BYTES
from kafkawire.apis import ApiKey
from tests.unit.broker.network_fakes import Client, World, nothing_left, request_frame

IDLE_S = 60.0


def answer(text: bytes = b"answer") -> EncodedMessage:
    return EncodedMessage(text)


class Parking(World):
    """A world whose handlers keep every reply pending until the test completes it."""

    def __init__(self, limits: NetworkLimits | None = None) -> None:
        super().__init__(limits, self._park)
        self.parked: dict[int, Reply] = {}

    def _park(self, request: Request) -> Reply:
        reply = self.parked[request.header.correlation_id] = Reply()
        return reply


def ids(client: Client) -> list[int]:
    return [correlation_id for correlation_id, _ in client.responses]


def is_read(client: Client) -> bool:
    return client.transport.is_reading


def is_closed(client: Client) -> bool:
    return client.transport.is_closing


def dropped(logs: Iterable[Mapping[str, object]]) -> list[object]:
    return [each["reason"] for each in logs if each["event"] == "connection.dropped"]


# Requests and responses.


def test_a_request_is_answered_with_its_correlation_id() -> None:
    world = World()
    client = world.connect()
    client.send(request_frame(7, b"hello"))
    world.loop.run()
    assert client.responses == [(7, b"hello")]


@pytest.mark.parametrize("chunk_bytes", [1, 3, 17, 1000])
def test_requests_are_answered_in_order_regardless_of_read_sizes(chunk_bytes: int) -> None:
    world = World()
    client = world.connect()
    frames = [request_frame(number, bytes([number]) * number) for number in range(30)]
    client.send(b"".join(frames), chunk_bytes)
    world.loop.run()
    assert client.responses == [(number, bytes([number]) * number) for number in range(30)]


def test_responses_of_one_turn_are_sent_in_one_write() -> None:
    world = World()
    client = world.connect()
    client.send(b"".join(request_frame(number) for number in range(20)))
    world.loop.run()
    assert len(client.responses) == 20
    assert client.transport.write_count == 1


def test_a_pending_reply_holds_back_later_responses() -> None:
    world = Parking()
    client = world.connect()
    client.send(b"".join(request_frame(number) for number in range(3)))
    world.loop.run()
    world.parked[2].complete(answer())
    world.parked[1].complete(answer())
    world.loop.run()
    assert ids(client) == []
    world.parked[0].complete(answer())
    world.loop.run()
    assert ids(client) == [0, 1, 2]


def test_a_request_without_response_keeps_its_place() -> None:
    world = World(
        handle=lambda r: Reply.none() if r.header.correlation_id == 1 else Reply(answer())
    )
    client = world.connect()
    client.send(b"".join(request_frame(number) for number in range(3)))
    world.loop.run()
    assert ids(client) == [0, 2]


def test_a_large_response_does_not_block_the_loop() -> None:
    body = bytes(BATCH_BYTES)
    world = World(handle=lambda _request: Reply(answer(body)))
    client = world.connect()
    client.send(b"".join(request_frame(number) for number in range(3)))
    world.loop.run_turn()
    assert ids(client) == [0]
    world.loop.run()
    assert ids(client) == [0, 1, 2]


def test_a_large_request_arrives_whole() -> None:
    world = World()
    client = world.connect()
    body = struct.pack(">I", 0xCAFE) * LARGE_FRAME_BYTES
    with nothing_left(world):
        client.send(request_frame(1, body) + request_frame(2, b"small"), 50_000)
        world.loop.run()
        assert client.responses == [(1, body), (2, b"small")]
        client.transport.abort()


def test_the_body_is_writable_and_intact_when_the_handler_runs() -> None:
    bodies: list[bytes] = []

    def handle(request: Request) -> Reply:
        bodies.append(bytes(request.body))
        request.body[:] = b"\xff" * len(request.body)
        return Reply(answer())

    world = World(handle=handle)
    clients = [world.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(request_frame(1, bytes([number]) * 100) + request_frame(2, b"tail")[:9])
    world.loop.run()
    for client in clients:
        client.send(request_frame(2, b"tail")[9:])
    world.loop.run()
    assert bodies == [bytes([number]) * 100 for number in range(3)] + [b"tail"] * 3


# Malformed input.


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="oversized"),
        pytest.param(struct.pack(">i", 0), id="empty frame"),
        pytest.param(struct.pack(">ih", 2, 0), id="cut header"),
        pytest.param(request_frame(1, api_key=999), id="unknown API key"),
        pytest.param(struct.pack(">ihhih", 10, 0, 7, 1, 500), id="client id beyond the end"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", id="HTTP"),
    ],
)
def test_garbage_closes_its_connection_with_one_event(garbage: bytes) -> None:
    world = World()
    client, other = world.connect(), world.connect()
    with nothing_left(world), capture_logs() as logs:
        client.send(request_frame(1, b"before") + garbage + request_frame(2, b"after"))
        other.send(request_frame(3, b"other"))
        world.loop.run()
        assert client.responses == [(1, b"before")]
        assert is_closed(client)
        assert len(dropped(logs)) == 1
        assert (other.responses, is_closed(other)) == ([(3, b"other")], False)
        other.transport.abort()
    assert world.channel.metrics.connections_dropped == 1


def test_a_large_frame_with_a_bad_header_releases_its_buffer() -> None:
    world = World()
    client = world.connect()
    frame = request_frame(1, bytes(2 * LARGE_FRAME_BYTES), api_key=999)
    with nothing_left(world), capture_logs() as logs:
        client.send(frame, 1000)
        world.loop.run()
    assert len(dropped(logs)) == 1


def test_garbage_closes_the_connection_after_earlier_replies() -> None:
    world = Parking()
    client = world.connect()
    with capture_logs():
        client.send(request_frame(1) + struct.pack(">i", -1))
    world.loop.run()
    assert not is_closed(client)
    assert not is_read(client)
    world.parked[1].complete(answer())
    world.loop.run()
    assert ids(client) == [1]
    assert is_closed(client)


def test_a_dropped_connection_is_logged_once() -> None:
    """The connection has bad input and an unsent response, and becomes idle as well."""
    world = World(handle=lambda _request: Reply(answer(bytes(1000))))
    client = world.connect()
    client.transport.room = 10
    with nothing_left(world), capture_logs() as logs:
        client.send(request_frame(1) + struct.pack(">i", -1))
        world.loop.run()
        world.loop.now_s += IDLE_S + 1
        client.processor.drop_if_idle(IDLE_S)
    assert len(dropped(logs)) == 1
    assert world.channel.metrics.connections_dropped == 1


def test_input_that_cannot_be_kept_closes_the_connection() -> None:
    world = World(NetworkLimits(socket_request_max_bytes=100, queued_max_request_bytes=100))
    clients = [world.connect() for _ in range(3)]
    with capture_logs() as logs:
        for client in clients:
            client.send(request_frame(1, bytes(60))[:50])
    assert len(dropped(logs)) == 1
    world.loop.run()
    assert [is_closed(client) for client in clients] == [False, False, True]


# Failures of handlers, and replies that close.


def test_a_failing_handler_closes_its_connection_only() -> None:
    def handle(request: Request) -> Reply:
        if request.header.correlation_id == 2:
            raise RuntimeError("a bug")
        return Reply(answer())

    world = World(handle=handle)
    client, other = world.connect(), world.connect()
    with capture_logs() as logs:
        client.send(request_frame(2))
        other.send(request_frame(3))
        world.loop.run()
    assert is_closed(client)
    assert ids(other) == [3]
    assert [each["event"] for each in logs] == ["connection.failed", "connection.dropped"]


def test_a_message_that_cannot_be_encoded_closes_its_connection_only() -> None:
    world = World(handle=lambda _request: Reply("not a message"))
    client = world.connect()
    with capture_logs() as logs:
        client.send(request_frame(1))
        world.loop.run()
    assert is_closed(client)
    assert [each["event"] for each in logs] == ["connection.failed", "connection.dropped"]


def test_a_closing_reply_closes_after_the_replies_before_it() -> None:
    replies = [Reply(answer()), Reply.close("acks=0 failed"), Reply(answer()), Reply()]
    cancelled: list[str] = []
    replies[3].on_cancel(lambda: cancelled.append("parked"))
    world = World(handle=lambda request: replies[request.header.correlation_id])
    client = world.connect()
    with nothing_left(world), capture_logs() as logs:
        client.send(b"".join(request_frame(number) for number in range(4)))
        world.loop.run()
    assert ids(client) == [0]
    assert dropped(logs) == ["acks=0 failed"]
    assert cancelled == ["parked"]


# Connections that are lost.


def test_a_parked_reply_is_cancelled_when_its_connection_is_lost() -> None:
    world = Parking()
    client = world.connect()
    with nothing_left(world):
        client.send(request_frame(1) + request_frame(2))
        world.loop.run()
        client.transport.abort()
    assert [reply.cancelled for reply in world.parked.values()] == [True, True]
    world.parked[1].complete(answer())
    world.loop.run()
    assert client.transport.sent == b""


def test_completing_the_reply_of_a_vanished_client_raises_no_error() -> None:
    """The client has closed the socket, but the loop has not reported it yet."""
    world = World()
    parked: list[Reply] = []

    def handle(request: Request) -> Reply:
        if request.header.correlation_id == 1:
            parked.append(Reply())
            return parked[0]
        parked[0].complete(answer())
        return Reply(answer())

    world = World(handle=handle)
    vanishing, completer = world.connect(), world.connect()
    vanishing.send(request_frame(1))
    world.loop.run()

    def reset(_data: bytes) -> None:
        raise ConnectionResetError("gone")

    vanishing.transport.write = reset  # type: ignore[method-assign,assignment]
    with capture_logs() as logs:
        completer.send(request_frame(2))
        world.loop.run()
    assert ids(completer) == [2]
    assert not is_closed(completer)
    assert is_closed(vanishing)
    assert logs == [], "a client that goes away is no trouble"


def test_requests_already_read_are_handled_after_the_client_has_gone() -> None:
    """A producer with acks=0 may close as soon as it has sent."""
    world = Parking()
    client = world.connect()
    with nothing_left(world):
        client.send(request_frame(1) + request_frame(2))
        client.processor.connection_lost(None)
    assert world.handled == [1, 2]
    assert world.parked[1].cancelled, "no client will read the response"


def test_a_failing_cancellation_does_not_stop_the_others() -> None:
    world = Parking()
    client = world.connect()
    client.send(request_frame(1) + request_frame(2))
    world.loop.run()
    world.parked[1].on_cancel(lambda: 1 // 0)
    with nothing_left(world), capture_logs() as logs:
        client.transport.abort()
        world.loop.run()
    assert world.parked[2].cancelled
    assert [each["event"] for each in logs] == ["connection.failed"]


def test_a_refused_connection_is_closed_and_never_listed() -> None:
    world = World()
    world.owner.refusal = "max.connections=0 are open"
    with capture_logs() as logs:
        client = world.connect()
    assert is_closed(client)
    world.loop.run()
    assert [each["event"] for each in logs] == ["connection.refused"]
    assert world.channel.metrics.connections_refused == 1
    assert world.channel.metrics.connections_open == 0


def test_a_connection_that_its_client_has_reset_already_is_not_served() -> None:
    world = World()
    with nothing_left(world), capture_logs() as logs:
        client = world.connect(peer=None)
        client.send(request_frame(1))
        world.loop.run()
    assert world.handled == []
    assert dropped(logs) == ["the client has reset it"]


# Back-pressure.


def test_the_number_of_requests_in_flight_is_limited() -> None:
    world = Parking(NetworkLimits(max_in_flight_requests_per_connection=3))
    client = world.connect()
    client.send(b"".join(request_frame(number) for number in range(10)))
    world.loop.run()
    assert world.handled == [0, 1, 2]
    assert not is_read(client)
    world.parked[0].complete(answer())
    world.loop.run()
    assert world.handled == [0, 1, 2, 3]
    for number in range(1, 10):
        world.parked[number].complete(answer())
        world.loop.run()
    assert ids(client) == list(range(10))
    assert is_read(client)


def test_fewer_large_requests_are_in_flight() -> None:
    world = Parking()
    client = world.connect()
    size = MAX_IN_FLIGHT_BYTES // 20
    data = b"".join(request_frame(number, bytes(size)) for number in range(40))
    taken = client.send(data)
    world.loop.run()
    count = len(world.parked)
    assert 20 <= count < 30
    for number in range(count):
        world.parked[number].complete(answer())
    world.loop.run()
    client.send(data[taken:])
    world.loop.run()
    assert len(world.parked) == 40
    assert ids(client) == list(range(count))


def test_requests_of_a_client_that_does_not_read_are_not_read() -> None:
    world = World(handle=lambda _request: Reply(answer(bytes(1000))))
    client = world.connect()
    client.transport.room = 10
    client.send(request_frame(1))
    world.loop.run()
    client.send(request_frame(2) + request_frame(3))
    world.loop.run()
    assert world.handled == [1]
    assert not is_read(client)
    assert client.transport.held_bytes == 1008 - 10
    assert client.processor.obstacle == "its client to read"
    client.transport.drain()
    world.loop.run()
    assert ids(client) == [1, 2, 3]
    assert is_read(client)


def test_responses_for_a_client_that_does_not_read_are_not_encoded() -> None:
    world = Parking()
    client = world.connect()
    client.transport.room = 10
    client.send(b"".join(request_frame(number) for number in range(50)))
    world.loop.run()
    world.parked[0].complete(answer(bytes(1000)))
    world.loop.run()
    for number in range(1, 50):
        world.parked[number].complete(answer(bytes(1000)))
    world.loop.run()
    assert client.transport.held_bytes < 1008
    client.transport.drain()
    world.loop.run()
    assert ids(client) == list(range(50))


def test_a_full_channel_stops_reading_until_it_has_room() -> None:
    world = World(NetworkLimits(queued_max_requests=5))
    clients = [world.connect() for _ in range(4)]
    for client in clients:
        client.send(b"".join(request_frame(number) for number in range(4)))
    assert world.channel.free_count == 0
    assert [is_read(client) for client in clients] == [True, False, False, False]
    world.loop.run()
    assert [ids(client) for client in clients] == [[0, 1, 2, 3]] * 4
    assert [is_read(client) for client in clients] == [True] * 4


def test_the_control_plane_is_read_while_the_channel_is_full() -> None:
    world = World(NetworkLimits(queued_max_requests=1))
    client, controller = world.connect(), world.connect(is_control_plane=True)
    client.send(request_frame(1))
    controller.send(request_frame(2))
    world.loop.run()
    assert world.handled == [2, 1]


# Memory.

LARGE = 2 * SMALL_FRAME_BYTES
HEAD_BYTES = 1000


def short_of_memory() -> World:
    """A broker with memory for half of one large request at a time."""
    return World(NetworkLimits(socket_request_max_bytes=LARGE, queued_max_request_bytes=LARGE))


def large_request() -> bytes:
    return request_frame(1, bytes(LARGE - 100))


def test_announced_large_requests_do_not_keep_other_clients_out() -> None:
    world = World()
    large = request_frame(1, bytes(world.limits.socket_request_max_bytes - 100)[:100])
    announced = struct.pack(">i", world.limits.socket_request_max_bytes) + large[4:]
    for _ in range(200):
        world.connect().send(announced)
    honest = world.connect()
    assert honest.send(large_request(), 100_000) == len(large_request())
    world.loop.run()
    assert ids(honest) == [1]


def test_large_requests_wait_for_memory_and_small_ones_pass_them() -> None:
    world = short_of_memory()
    slow, waiting, small = world.connect(), world.connect(), world.connect()
    large = large_request()
    with nothing_left(world):
        slow.send(large[: LARGE // 2])
        assert waiting.send(large, HEAD_BYTES) == HEAD_BYTES
        assert not is_read(waiting)
        small.send(request_frame(5, b"small"))
        medium = request_frame(6, bytes(3 * LARGE_FRAME_BYTES))
        sent = small.send(medium, HEAD_BYTES)
        assert sent < len(medium), "there is no memory for it either"
        world.loop.run()
        assert small.responses == [(5, b"small")], "small requests need no reservation"
        slow.send(large[LARGE // 2 :])
        world.loop.run()
        assert ids(slow) == [1]
        assert is_read(waiting)
        small.send(medium[sent:])
        world.loop.run()
        assert ids(small) == [5, 6]
        waiting.send(large[HEAD_BYTES:])
        world.loop.run()
        assert ids(waiting) == [1]
        for client in (slow, waiting, small):
            client.transport.abort()


def test_a_waiting_large_request_goes_on_when_the_one_before_it_vanishes() -> None:
    world = short_of_memory()
    slow, waiting = world.connect(), world.connect()
    large = large_request()
    slow.send(large[: LARGE // 2])
    waiting.send(large, HEAD_BYTES)
    with nothing_left(world):
        slow.transport.abort()
        world.loop.run()
        assert is_read(waiting)
        waiting.send(large[HEAD_BYTES:])
        world.loop.run()
        assert ids(waiting) == [1]
        waiting.transport.abort()


def test_a_client_that_vanishes_while_waiting_for_memory_leaves_the_line() -> None:
    world = short_of_memory()
    slow, waiting = world.connect(), world.connect()
    large = large_request()
    slow.send(large[: LARGE // 2])
    waiting.send(large, HEAD_BYTES)
    was_contended = world.memory.is_contended
    with nothing_left(world):
        waiting.transport.abort()
        world.loop.run()
        assert (was_contended, world.memory.is_contended) == (True, False)
        slow.transport.abort()


def check_stalled(world: World, clients: Iterable[Client], since_s: float, after_s: float) -> None:
    """Check the connections `after_s` later, while memory has been short since `since_s`."""
    world.loop.now_s += after_s
    for client in clients:
        if not is_closed(client):
            client.processor.drop_if_stalled(since_s)


def test_only_stalled_connections_with_memory_are_dropped() -> None:
    world = short_of_memory()
    stalled, waiting = world.connect(), world.connect()
    large = large_request()
    stalled.send(large[: LARGE // 2])
    waiting.send(large, HEAD_BYTES)
    since_s = world.loop.now_s
    with capture_logs() as logs:
        for _ in range(4):
            check_stalled(world, (stalled, waiting), since_s, 1)
    assert (is_closed(stalled), is_closed(waiting)) == (True, False)
    assert dropped(logs) == [f"{LARGE // 2} bytes of a request stalled while memory is short"]
    world.loop.run()
    assert is_read(waiting)


def test_connection_that_waits_for_a_response_is_not_stalled() -> None:
    world = short_of_memory()
    client, large = world.connect(), large_request()
    client.send(large[: LARGE // 2])
    client.processor._queue.stops_reading = True
    since_s = world.loop.now_s
    for _ in range(4):
        check_stalled(world, [client], since_s, 1)
    assert not is_closed(client), "the broker has stopped reading from it"
    client.processor._queue.stops_reading = False
    since_s = world.loop.now_s
    with capture_logs():
        for _ in range(4):
            check_stalled(world, [client], since_s, 1)
    assert is_closed(client)


def check_dropped_in_time(world: World, client: Client) -> None:
    """Check that the connection is dropped after `MAX_KEPT_S`, while memory is short."""
    since_s = world.loop.now_s
    with capture_logs() as logs:
        for _ in range(int(MAX_KEPT_S) + 1):
            assert not is_closed(client)
            check_stalled(world, [client], since_s, 1)
    assert is_closed(client)
    assert dropped(logs) == [f"input kept for {MAX_KEPT_S} s while memory is short"]


def test_a_client_cannot_hold_memory_for_as_long_as_its_long_request_waits() -> None:
    world = short_of_memory()
    client, large = world.connect(), large_request()
    client.send(large[: LARGE // 2])
    client.processor._queue.stops_reading = True
    check_dropped_in_time(world, client)


def test_a_client_cannot_hold_memory_for_as_long_as_it_is_throttled() -> None:
    world = short_of_memory()
    quiet, client = world.connect(), world.connect()
    client.send(large_request()[: LARGE // 2])
    for each in (quiet, client):
        each.processor.mute(10 * MAX_KEPT_S)
    check_dropped_in_time(world, client)
    check_stalled(world, [quiet], world.loop.now_s - MAX_KEPT_S, 1)
    assert not is_closed(quiet), "it holds no memory"


@pytest.mark.parametrize("obstacle", ["long request", "unread response"])
def test_a_client_gains_no_time_from_a_large_request_that_waits_for_memory(obstacle: str) -> None:
    world = short_of_memory()
    if obstacle == "long request":
        world = Parking(world.limits)
    other, client = world.connect(), world.connect()
    large = large_request()
    other.send(large[: LARGE // 2])
    client.transport.room = 0
    body = bytes(2 * LONG_REQUEST_BYTES)
    client.send(request_frame(0, body, ApiKey.CREATE_TOPICS) + large[:HEAD_BYTES])
    world.loop.run()
    assert client.processor._receiver.wanted_bytes > 0
    check_dropped_in_time(world, client)


@pytest.mark.parametrize("end", ["response", "read"])
def test_a_large_request_waits_for_memory_once_the_request_before_it_is_answered(end: str) -> None:
    world = Parking(short_of_memory().limits)
    other, client = world.connect(), world.connect()
    large = large_request()
    other.send(large[: LARGE // 2])
    client.send(request_frame(0, bytes(2 * LONG_REQUEST_BYTES), ApiKey.CREATE_TOPICS))
    client.send(large[:HEAD_BYTES])
    world.loop.run()
    client.transport.room = 0 if end == "read" else 1 << 30
    world.parked[0].complete(answer())
    world.loop.run()
    client.transport.drain()
    world.loop.run()
    assert (ids(client), is_read(client)) == ([0], False)
    with nothing_left(world):
        other.transport.abort()
        world.loop.run()
        client.send(large[HEAD_BYTES:])
        world.loop.run()
        world.parked[1].complete(answer())
        world.loop.run()
        assert ids(client) == [0, 1]
        client.transport.abort()


def long_frames(count: int, body_bytes: int = 2 * LONG_REQUEST_BYTES) -> bytes:
    """Return requests of which each waits for the response to the previous one."""
    key = ApiKey.CREATE_TOPICS
    return b"".join(request_frame(number, bytes(body_bytes), key) for number in range(count))


@pytest.mark.parametrize("end", ["response", "disconnect", "handler error"])
def test_requests_behind_a_long_one_are_charged_until_the_end(end: str) -> None:
    world = Parking()
    client = world.connect()
    with nothing_left(world), capture_logs():
        client.send(long_frames(3))
        world.loop.run()
        charged = world.memory.kept_bytes
        assert charged > 3 * LONG_REQUEST_BYTES
        if end == "handler error":
            world._handle = lambda _request: 1 // 0  # type: ignore[assignment, return-value]
        if end != "disconnect":
            world.parked[0].complete(answer())
            world.loop.run()
        if end == "response":
            assert 0 < world.memory.kept_bytes < charged, "the second request blocks the third"
            world.parked[1].complete(answer())
            world.loop.run()
        assert (world.memory.kept_bytes == 0) == (end != "disconnect")
        client.transport.abort()


def test_requests_behind_a_long_one_are_refused_without_memory_for_them() -> None:
    limits = NetworkLimits(socket_request_max_bytes=100_000, queued_max_request_bytes=100_000)
    world = Parking(limits)
    client, half = world.connect(), world.connect()
    with nothing_left(world):
        half.send(request_frame(1, bytes(20_000))[:10_000])
        client.send(long_frames(8, 20_000))
        with capture_logs() as logs:
            world.loop.run()
        share_bytes = int(100_000 * BLOCKED_REQUESTS_SHARE)
        assert world.memory.kept_bytes <= share_bytes
        assert [str(reason).partition(" bytes")[2] for reason in dropped(logs)] == [
            f" in addition to {world.memory.kept_bytes} exceed {share_bytes}"
        ]
        assert not is_read(client)
        other = world.connect()
        other.send(request_frame(1)[:10])
        for number in range(4):
            assert not is_closed(client), "its earlier requests are answered"
            world.parked[number].complete(answer())
            world.loop.run()
        assert (ids(client), is_closed(client)) == ([0, 1, 2, 3], True)
        assert not is_closed(half)
        assert not is_closed(other)
        half.transport.abort()
        other.transport.abort()


def test_refused_requests_give_back_their_buffers() -> None:
    limits = NetworkLimits(socket_request_max_bytes=400_000, queued_max_request_bytes=400_000)
    world = Parking(limits)
    client = world.connect()
    with nothing_left(world), capture_logs():
        client.send(request_frame(0, bytes(2 * LONG_REQUEST_BYTES), ApiKey.CREATE_TOPICS))
        for number in range(1, 9):
            size_bytes = 4 * LARGE_FRAME_BYTES // 5 if number < 8 else 2 * LARGE_FRAME_BYTES
            client.send(request_frame(number, bytes(size_bytes), ApiKey.CREATE_TOPICS), 30_000)
        assert world.memory.reserved_bytes > 0
        world.loop.run()
        assert world.memory.reserved_bytes == 0
        client.transport.abort()


def test_a_client_cannot_hold_requests_for_as_long_as_its_long_request_waits() -> None:
    world = Parking()
    client = world.connect()
    client.send(long_frames(3))
    world.loop.run()
    since_s = world.loop.now_s
    with nothing_left(world), capture_logs() as logs:
        for _ in range(int(MAX_KEPT_S) + 1):
            assert not is_closed(client)
            check_stalled(world, [client], since_s, 1)
        world.loop.run()
    assert dropped(logs) == [f"input kept for {MAX_KEPT_S} s while memory is short"]


def test_a_request_that_keeps_arriving_is_not_stalled() -> None:
    world = short_of_memory()
    slow, large = world.connect(), large_request()
    slow.send(large[:HEAD_BYTES])
    since_s, sent = world.loop.now_s, HEAD_BYTES
    for _ in range(20):
        check_stalled(world, [slow], since_s, 1)
        sent += slow.send(large[sent : sent + MIN_PROGRESS_BYTES])
    assert not is_closed(slow)
    with capture_logs():
        for _ in range(4):
            sent += slow.send(large[sent : sent + 1])
            check_stalled(world, [slow], since_s, 1)
    assert is_closed(slow), "a byte a second is too little while others wait"


def test_the_stall_timeout_starts_when_memory_becomes_short() -> None:
    world = short_of_memory()
    client = world.connect()
    client.send(large_request()[:HEAD_BYTES])
    check_stalled(world, [client], world.loop.now_s, 0)
    world.loop.now_s += 1000
    check_stalled(world, [client], world.loop.now_s, 0)
    assert not is_closed(client)


# Before the broker is open.


def early_request(correlation_id: int, api_key: int = ApiKey.API_VERSIONS) -> bytes:
    return request_frame(correlation_id, b"\0early", api_key)


def test_a_request_keeps_its_bytes_until_the_channel_opens() -> None:
    seen: list[tuple[int, bytes]] = []

    def handle(request: Request) -> Reply:
        seen.append((request.header.correlation_id, bytes(request.body)))
        return Reply(answer())

    world = World(handle=handle, is_open=False)
    one, other, controller = world.connect(), world.connect(), world.connect()
    one.send(request_frame(1, b"AAAA-delete-nothing-of-A"))
    world.loop.run()
    other.send(request_frame(2, b"BBBB-the-bytes-of-client"))
    world.loop.run()
    controller.send(request_frame(3, b"\0the cluster", ApiKey.UPDATE_METADATA))
    world.loop.run()
    assert seen == [(3, b"the cluster")]
    assert [is_read(each) for each in (one, other, controller)] == [False, False, True]
    with nothing_left(world):
        world.channel.open()
        world.loop.run()
        assert seen[1:] == [(1, b"AAAA-delete-nothing-of-A"), (2, b"BBBB-the-bytes-of-client")]
        assert [is_read(each) for each in (one, other)] == [True, True]
        for client in (one, other, controller):
            client.transport.abort()


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 20])
def test_early_requests_are_answered_before_the_channel_opens(chunk_bytes: int) -> None:
    world = World(is_open=False)
    client = world.connect()
    data = early_request(1) + early_request(2) + request_frame(3, b"later") + early_request(4)
    taken = client.send(data, chunk_bytes)
    world.loop.run()
    assert ids(client) == [1, 2]
    world.channel.open()
    world.loop.run()
    client.send(data[taken:], chunk_bytes)
    world.loop.run()
    assert ids(client) == [1, 2, 3, 4]


def test_a_large_early_request_holds_only_its_received_bytes() -> None:
    world = World(is_open=False)
    client, controller = world.connect(), world.connect()
    large = large_request()
    taken = client.send(large, HEAD_BYTES)
    assert taken == HEAD_BYTES
    assert world.memory.reserved_bytes <= LARGE_FRAME_BYTES
    controller.send(request_frame(2, bytes(LARGE), ApiKey.LEADER_AND_ISR), 100_000)
    world.loop.run()
    assert ids(controller) == [2]
    world.channel.open()
    world.loop.run()
    client.send(large[taken:], 100_000)
    world.loop.run()
    assert ids(client) == [1]


def test_garbage_before_the_channel_opens_closes_its_connection() -> None:
    world = World(is_open=False)
    client = world.connect()
    with nothing_left(world), capture_logs() as logs:
        client.send(early_request(1) + struct.pack(">ih", -1, ApiKey.API_VERSIONS))
        world.loop.run()
    assert ids(client) == [1]
    assert len(dropped(logs)) == 1


# Idle connections and shutdown.


def idle_out(world: World, client: Client, elapsed_s: float) -> bool:
    world.loop.now_s += elapsed_s
    client.processor.drop_if_idle(IDLE_S)
    return is_closed(client)


def test_a_silent_connection_is_idle() -> None:
    world = World()
    client = world.connect()
    assert not idle_out(world, client, IDLE_S)
    with capture_logs() as logs:
        assert idle_out(world, client, 1)
    assert dropped(logs) == ["idle for 61.000 s"]


def test_a_connection_with_half_a_request_is_idle() -> None:
    world = World()
    client = world.connect()
    with nothing_left(world), capture_logs():
        for byte in request_frame(1, bytes(100))[:-1]:
            client.send(bytes([byte]))
            world.loop.now_s += 1
        assert idle_out(world, client, 0)


def test_a_connection_with_a_whole_request_is_not_idle() -> None:
    world = World()
    client = world.connect()
    world.loop.now_s += IDLE_S
    client.send(request_frame(1))
    world.loop.run()
    assert not idle_out(world, client, IDLE_S)


def test_a_connection_with_a_waiting_request_is_idle() -> None:
    world = Parking()
    client = world.connect()
    client.send(request_frame(1) + request_frame(2))
    world.loop.run()
    assert not idle_out(world, client, IDLE_S)
    world.parked[1].complete(answer())
    world.loop.run()
    assert not idle_out(world, client, IDLE_S), "an answer was sent"
    with nothing_left(world), capture_logs() as logs:
        assert idle_out(world, client, 1)
    assert [each["log_level"] for each in logs] == ["info"], "nothing is wrong"


def test_a_client_that_never_reads_is_idle() -> None:
    world = World(handle=lambda _request: Reply(answer(bytes(1000))))
    client = world.connect()
    client.transport.room = 0
    client.send(request_frame(1) + request_frame(2))
    world.loop.run()
    with nothing_left(world), capture_logs():
        assert idle_out(world, client, IDLE_S + 1)


def test_half_a_small_request_is_dropped_when_memory_is_short() -> None:
    world = World()
    quiet, half = world.connect(), world.connect()
    quiet.send(request_frame(1))
    half.send(request_frame(1)[:-1])
    world.loop.run()
    since_s = world.loop.now_s
    with capture_logs():
        check_stalled(world, (quiet, half), since_s, MAX_KEPT_S)
        assert not is_closed(half)
        check_stalled(world, (quiet, half), since_s, 1)
    assert (is_closed(quiet), is_closed(half)) == (False, True)


def test_finishing_answers_requests_already_read_and_closes() -> None:
    world = Parking()
    client, quiet = world.connect(), world.connect()
    client.send(request_frame(1) + request_frame(2, b"half")[:7])
    world.loop.run()
    with nothing_left(world):
        client.processor.finish()
        quiet.processor.finish()
        world.loop.run()
        assert is_closed(quiet)
        assert not is_closed(client)
        assert not is_read(client)
        world.parked[1].complete(answer())
        world.loop.run()
        assert ids(client) == [1]


def test_finishing_waits_for_a_slow_reader() -> None:
    world = World(handle=lambda _request: Reply(answer(bytes(1000))))
    client = world.connect()
    client.transport.room = 10
    client.send(request_frame(1) + request_frame(2))
    world.loop.run()
    client.processor.finish()
    world.loop.run()
    assert not is_closed(client)
    client.transport.drain()
    world.loop.run()
    assert ids(client) == [1, 2]
    assert is_closed(client)


def test_the_metrics_count_requests_bytes_and_connections() -> None:
    world = World()
    client = world.connect()
    frame = request_frame(1, b"12345")
    client.send(frame)
    world.loop.run()
    metrics = world.channel.metrics
    assert (metrics.connections_accepted, metrics.connections_open) == (1, 1)
    assert (metrics.bytes_in, metrics.bytes_out) == (len(frame), 13)
    assert metrics.requests[0].request_count == 1
    client.transport.abort()
    world.loop.run()
    assert (metrics.connections_accepted, metrics.connections_open) == (1, 0)


# Muting.


class Muting(World):
    """A world whose first request mutes its connection for two seconds."""

    def __init__(self) -> None:
        super().__init__(None, self._mute_once)
        self.seen: list[int] = []

    def _mute_once(self, request: Request) -> Reply:
        self.seen.append(request.header.correlation_id)
        if len(self.seen) == 1:
            request.connection.mute(2.0)
        return Reply(answer())


def test_a_muted_client_gets_its_response_and_is_not_read_meanwhile() -> None:
    world = Muting()
    client, other = world.connect(), world.connect()
    client.send(request_frame(1))
    world.loop.run()
    assert (ids(client), is_read(client), is_read(other)) == ([1], False, True)
    world.loop.pass_time(1.9)
    assert not is_read(client)
    world.loop.pass_time(0.2)
    assert is_read(client)
    client.send(request_frame(2))
    world.loop.run()
    assert ids(client) == [1, 2]


def test_a_muted_client_is_not_idle_and_may_disconnect() -> None:
    world = Muting()
    client = world.connect()
    client.send(request_frame(1))
    world.loop.run()
    world.loop.pass_time(1.0)
    client.processor.drop_if_idle(0.5)
    assert not is_closed(client)
    client.transport.abort()
    world.loop.run()
    world.loop.pass_time(2.0)
    assert is_closed(client)


def test_the_end_of_a_muted_connection_leaves_no_timer() -> None:
    world = Muting()
    client = world.connect()
    client.send(request_frame(1))
    world.loop.run()
    client.transport.abort()
    world.loop.run()
    assert not world.loop.pending_timers, "a long mute would keep the connection for days"


def test_the_longest_of_several_mutes_counts() -> None:
    world = Muting()
    client = world.connect()
    client.send(request_frame(1))
    world.loop.run()
    for delay_s in (1.0, 5.0, 3.0):
        client.processor.mute(delay_s)
    world.loop.pass_time(4.9)
    assert not is_read(client)
    world.loop.pass_time(0.2)
    assert is_read(client)


def test_a_muted_client_that_has_gone_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Muting()
    client = world.connect()
    client.send(request_frame(1))
    world.loop.run()
    world.loop.pass_time(1.0)
    monkeypatch.setattr(processor, "has_gone", lambda transport: transport is client.transport)
    client.processor.drop_if_idle(1.5)
    assert not is_closed(client)
    client.processor.drop_if_idle(0.5)
    assert is_closed(client)


def test_the_end_of_a_mute_does_not_end_a_hold() -> None:
    world = Muting()
    client = world.connect()
    client.send(request_frame(1))
    world.loop.run()
    client.processor.hold()
    client.processor.mute(1.0)
    assert not world.loop.pending_timers
    world.loop.pass_time(3.0)
    assert not is_read(client)
