"""Behaviour of the client with any server: each function is one experiment.

`test_client.py` runs them with our coordinator, the interop tests with ZooKeeper, standalone and as
an ensemble. Every experiment uses its own path.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from coordination.client import Client, SessionState, WatchEvent, ops, patterns
from coordination.errors import (
    BadVersionError,
    ErrorCode,
    MultiError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from coordination.protocol.messages import (
    Acl,
    ChildrenResponse,
    EventType,
    GetDataResponse,
    OpCode,
    SetAclRequest,
    StatResponse,
)

T = TypeVar("T")
DEADLINE_S = 120.0
Experiment = Callable[[str, str], Awaitable[None]]


class Events:
    """Callback that records events, and can be awaited."""

    def __init__(self) -> None:
        self.seen: list[tuple[EventType, str]] = []
        self._wakeup = asyncio.Event()

    def __call__(self, event: WatchEvent) -> None:
        self.seen.append((event.type, event.path))
        self._wakeup.set()

    async def wait(self, count: int) -> list[tuple[EventType, str]]:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.seen) < count:
                self._wakeup.clear()
                await self._wakeup.wait()
        return self.seen


def recording(order: list[T], item: T) -> Callable[[object], None]:
    """Return a callback that appends `item` to `order`."""
    return lambda _anything: order.append(item)


@asynccontextmanager
async def connected(address: str, **options: int) -> AsyncIterator[Client]:
    client = Client(address, session_timeout_ms=options.get("timeout_ms", 6000))
    await client.connect()
    try:
        yield client
    finally:
        await client.close()


def drop(client: Client) -> None:
    """Abort the connection, like a network failure."""
    assert client.session._connection is not None
    client.session._connection.abort()


async def basic_operations(address: str, base: str) -> None:
    async with connected(address) as client:
        assert await client.create(base, b"1") == base
        path, stat = await client.create_with_stat(f"{base}/n", None)
        assert (path, stat.data_length) == (f"{base}/n", 0)
        assert (await client.set_data(base, b"22", 0)).version == 1
        data, stat = await client.get_data(base)
        assert (data, stat.version, stat.num_children) == (b"22", 1, 1)
        assert await client.get_children(base) == ["n"]
        await client.sync(base)
        await client.delete(f"{base}/n", 0)
        assert await client.exists(f"{base}/n") is None


async def refusals_have_their_own_exceptions(address: str, base: str) -> None:
    async with connected(address) as client:
        await client.create(base)
        await client.create(f"{base}/e", ephemeral=True)
        with pytest.raises(NodeExistsError):
            await client.create(base)
        with pytest.raises(NoNodeError):
            await client.get_data(f"{base}/none")
        with pytest.raises(BadVersionError):
            await client.set_data(base, b"", 7)
        with pytest.raises(NotEmptyError):
            await client.delete(base)
        with pytest.raises(NoChildrenForEphemeralsError):
            await client.create(f"{base}/e/x")


async def sequences_count_up(address: str, base: str) -> None:
    async with connected(address) as client:
        await client.create(base)
        names = await asyncio.gather(
            *[client.create(f"{base}/s-", sequential=True) for _ in range(100)]
        )
        assert names == [f"{base}/s-{n:010d}" for n in range(100)]


async def a_multi_is_all_or_nothing(address: str, base: str) -> None:
    async with connected(address) as client:
        await client.create(base)
        results = await client.multi(
            [
                ops.check(base, 0),
                ops.create(f"{base}/a", b"1"),
                ops.set_data(f"{base}/a", b"2", 0),
                ops.create(f"{base}/b"),
                ops.delete(f"{base}/b"),
            ]
        )
        assert isinstance(results[2].response, StatResponse)
        assert results[2].response.stat.version == 1
        with pytest.raises(MultiError) as caught:
            await client.multi(
                [ops.set_data(base, b"x"), ops.check(base, 7), ops.create(f"{base}/c")]
            )
        assert caught.value.codes == (0, ErrorCode.BAD_VERSION, ErrorCode.RUNTIME_INCONSISTENCY)
        assert (await client.get_data(base))[0] == b""
        assert await client.get_children(base) == ["a"]


async def a_multi_read_has_a_result_per_read(address: str, base: str) -> None:
    async with connected(address) as client:
        await client.create(base, b"1")
        found = await client.multi_read(
            [ops.get_data(base), ops.get_data(f"{base}/none"), ops.get_children(base)]
        )
        first, last = found[0].response, found[2].response
        assert isinstance(first, GetDataResponse)
        assert first.data == b"1"
        assert found[1].err == ErrorCode.NO_NODE
        assert isinstance(last, ChildrenResponse)


async def an_event_comes_before_the_reply_that_reflects_it(address: str, base: str) -> None:
    async with connected(address) as client, connected(address) as writer:
        await client.create(base)
        for turn in range(50):
            order: list[str] = []
            await client.get_data(base, recording(order, "event"))
            await writer.set_data(base, str(turn).encode())
            await client.sync(base)
            reads = [client.get_data(base) for _ in range(3)]
            data = [(await read)[0] for read in reads]
            order.append("read")
            assert data[0] == str(turn).encode()
            assert order == ["event", "read"]


async def the_writer_sees_its_own_event_before_its_reply(address: str, base: str) -> None:
    async with connected(address) as client:
        order: list[str] = []
        await client.exists(base, lambda _event: order.append("event"))
        creating = client.create(base)
        creating.add_done_callback(lambda _done: order.append("reply"))
        await creating
        assert order == ["event", "reply"]


async def one_shot_watches_fire_once(address: str, base: str) -> None:
    async with connected(address) as client:
        data, child, exist = Events(), Events(), Events()
        assert await client.exists(base, exist) is None
        await client.create(base)
        await client.get_data(base, data)
        await client.get_children(base, child)
        for n in range(2):
            await client.set_data(base, b"")
            await client.create(f"{base}/{n}")
        assert exist.seen == [(EventType.NODE_CREATED, base)]
        assert data.seen == [(EventType.NODE_DATA_CHANGED, base)]
        assert child.seen == [(EventType.NODE_CHILDREN_CHANGED, base)]


async def persistent_watches_stay_until_removed(address: str, base: str) -> None:
    async with connected(address) as client:
        await client.create(base)
        events = Events()
        await client.add_watch(base, events)
        await client.create(f"{base}/r")
        await client.set_data(base, b"")
        assert events.seen == [
            (EventType.NODE_CHILDREN_CHANGED, base),
            (EventType.NODE_DATA_CHANGED, base),
        ]
        await client.remove_watches(base)
        await client.set_data(base, b"")
        assert len(events.seen) == 2


async def watches_survive_a_lost_connection(address: str, base: str) -> None:
    async with connected(address) as client, connected(address) as writer:
        await client.create(base)
        await client.create(f"{base}/p")
        data, child, exist, missed, persistent = (Events() for _ in range(5))
        await client.get_data(base, data)
        await client.get_children(base, child)
        await client.exists(f"{base}/p/new", exist)
        await client.get_data(f"{base}/p", missed)
        await client.add_watch(f"{base}/p", persistent)
        states: list[SessionState] = []
        client.on_state_change(states.append)
        session_id = client.session_id
        drop(client)
        await writer.set_data(f"{base}/p", b"while away")
        await patterns.retry_read(lambda: client.exists(base))
        assert client.session_id == session_id
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        # Only the change during the lost connection causes an event.
        await missed.wait(1)
        assert (data.seen, child.seen, exist.seen) == ([], [], [])
        await writer.set_data(base, b"")
        await writer.create(f"{base}/q")
        await writer.create(f"{base}/p/new")
        await asyncio.gather(data.wait(1), child.wait(1), exist.wait(1), persistent.wait(1))


async def a_chroot_hides_its_parents(address: str, base: str) -> None:
    async with connected(address) as outside:
        await outside.create(base)
        async with connected(f"{address}{base}") as inside:
            events = Events()
            await inside.exists("/n", events)
            assert await inside.create("/n", b"1", sequential=False) == "/n"
            assert events.seen == [(EventType.NODE_CREATED, "/n")]
            assert await inside.get_children("/") == ["n"]
            results = await inside.multi([ops.create("/m-", sequential=True), ops.check("/", -1)])
            response = results[0].response
            assert response is not None
            assert response[0] == "/m-0000000001"
        assert sorted(await outside.get_children(base)) == ["m-0000000001", "n"]


async def a_chroot_needs_no_rights_above_itself(address: str, base: str) -> None:
    """The nodes above exist, and only their owner may create others below them."""
    acl = [Acl(31, "digest", "owner:x"), Acl(1, "world", "anyone")]
    async with connected(address) as outside:
        await outside.create(base)
        await outside.create(f"{base}/b")
        request = SetAclRequest(base, tuple(acl), -1)
        await outside.session.call(OpCode.SET_ACL, request, base, bytes)
        async with connected(f"{address}{base}/b") as inside:
            await inside.create_chroot()
        async with connected(f"{address}{base}/b/c/d") as inside:
            await inside.create_chroot()
            await inside.create_chroot()
        assert await outside.get_children(f"{base}/b") == ["c"]
        assert await outside.get_children(f"{base}/b/c") == ["d"]


async def ephemerals_are_deleted_with_their_session(address: str, base: str) -> None:
    async with connected(address) as watcher:
        await watcher.create(base)
        gone = Events()
        async with connected(address) as owner:
            await owner.create(f"{base}/e", ephemeral=True)
            stat = await watcher.exists(f"{base}/e", gone)
            assert stat is not None
            assert stat.ephemeral_owner == owner.session_id
        assert await gone.wait(1) == [(EventType.NODE_DELETED, f"{base}/e")]


async def lost_responses_are_recovered(address: str, base: str) -> None:
    async with connected(address) as client, connected(address) as other:
        await client.create(base, b"0")
        creating = asyncio.create_task(patterns.create_ephemeral(client, f"{base}/e", b""))
        await asyncio.sleep(0)
        drop(client)
        assert (await creating).ephemeral_owner == client.session_id
        with pytest.raises(NodeExistsError):
            await patterns.create_ephemeral(other, f"{base}/e", b"")
        setting = asyncio.create_task(patterns.set_data(client, base, b"1", 0))
        await asyncio.sleep(0)
        drop(client)
        assert (await setting).version == 1
        with pytest.raises(BadVersionError):
            await patterns.set_data(other, base, b"2", 0)


async def requests_are_answered_in_order(address: str, base: str) -> None:
    async with connected(address) as client:
        await client.create(base, b"")
        order: list[int] = []
        pending: list[asyncio.Future[object]] = []
        for number in range(500):
            future: asyncio.Future[object] = (
                client.set_data(base, b"")  # type: ignore[assignment]
                if number % 3
                else client.get_data(base)
            )
            future.add_done_callback(recording(order, number))
            pending.append(future)
        await asyncio.gather(*pending)
        assert order == list(range(500))


EXPERIMENTS: list[Experiment] = [
    basic_operations,
    refusals_have_their_own_exceptions,
    sequences_count_up,
    a_multi_is_all_or_nothing,
    a_multi_read_has_a_result_per_read,
    an_event_comes_before_the_reply_that_reflects_it,
    the_writer_sees_its_own_event_before_its_reply,
    one_shot_watches_fire_once,
    persistent_watches_stay_until_removed,
    watches_survive_a_lost_connection,
    a_chroot_hides_its_parents,
    a_chroot_needs_no_rights_above_itself,
    ephemerals_are_deleted_with_their_session,
    lost_responses_are_recovered,
    requests_are_answered_in_order,
]
