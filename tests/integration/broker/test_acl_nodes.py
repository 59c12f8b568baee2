"""Access control lists that two brokers follow and change: `broker.security.acl_nodes`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.cluster import node_watch
from broker.cluster.coordinator_session import CoordinatorSession
from broker.errors import StartupError
from broker.security.acl_nodes import AclNodes
from broker.security.authorizer import Authorizer
from clusterstate.acl_requests import change_acls
from clusterstate.znodes.acl_entries import PATTERN_TYPES, acl_path, changes_path
from coordination.errors import NoNodeError
from coordination.protocol.messages import OPEN_ACL, Acl, OpCode
from kafkawire.acl import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.integration.broker.test_unreadable_znodes import set_acl
from tests.integration.coordination.process import (
    DEADLINE_S,
    POLL_INTERVAL_S,
    Coordinator,
    RawClient,
    kill_all,
)
from tests.waiting import until

TIMEOUT_MS = 8_000
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
PREFIX = ResourcePattern(ResourceType.GROUP, "g", PatternType.PREFIXED)
ENTRIES = frozenset(
    AclEntry(principal=f"User:{name}", host="*", operation=Operation.READ, permission=permission)
    for name, permission in (("a", Permission.ALLOW), ("b", Permission.DENY))
)


def replaced(entries: frozenset[AclEntry], _found: frozenset[AclEntry]) -> frozenset[AclEntry]:
    return entries


class Follower:
    """One broker's session and its authorizer."""

    def __init__(self, session: CoordinatorSession) -> None:
        self.session = session
        self.authorizer = Authorizer([], allows_unlisted=False)
        self.nodes = AclNodes(session, self.authorizer, lambda: 0)

    async def learns(self, pattern: ResourcePattern, entries: frozenset[AclEntry]) -> None:
        """Wait until it knows these entries of a pattern."""
        deadline_s = asyncio.get_running_loop().time() + DEADLINE_S
        while self.authorizer.acls.get(pattern) != entries:
            assert asyncio.get_running_loop().time() < deadline_s, f"{pattern} does not change"
            await asyncio.sleep(POLL_INTERVAL_S)


Pair = tuple[Follower, Follower]


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    started = Coordinator(tmp_path / "coordinator")
    yield started
    kill_all([started])


@asynccontextmanager
async def opened(coordinator: Coordinator, path: Path) -> AsyncIterator[CoordinatorSession]:
    session = CoordinatorSession(
        coordinator.address, path, timeout_ms=TIMEOUT_MS, connect_timeout_ms=TIMEOUT_MS
    )
    await session.open()
    try:
        yield session
    finally:
        await session.close()


@pytest.fixture
async def pair(
    coordinator: Coordinator, tmp_path: Path
) -> AsyncIterator[tuple[Follower, Follower]]:
    """Two brokers that follow the lists."""
    async with (
        opened(coordinator, tmp_path / "first") as first,
        opened(coordinator, tmp_path / "second") as second,
    ):
        followers = Follower(first), Follower(second)
        for each in followers:
            await each.nodes.load()
            each.nodes.listen()
        yield followers
        for each in followers:
            await each.nodes.stop()


@pytest.mark.parametrize("pattern", [ORDERS, PREFIX], ids=str)
async def test_change_counts_at_once_here_and_soon_elsewhere(
    pair: Pair, pattern: ResourcePattern
) -> None:
    here, there = pair
    for entries in (ENTRIES, frozenset({*ENTRIES} - {min(ENTRIES, key=str)}), frozenset()):
        await here.nodes.change(pattern, partial(replaced, entries))
        assert here.authorizer.acls.get(pattern) == entries
        await there.learns(pattern, entries)


async def test_concurrent_changes_of_two_brokers_are_both_kept(
    pair: Pair,
) -> None:
    first, second = sorted(ENTRIES, key=str)
    await asyncio.gather(
        pair[0].nodes.change(ORDERS, lambda found: found | {first}),
        pair[1].nodes.change(ORDERS, lambda found: found | {second}),
    )
    for follower in pair:
        await follower.learns(ORDERS, ENTRIES)


async def test_everything_is_read_again_after_a_lost_session(
    coordinator: Coordinator, pair: Pair
) -> None:
    here, there = pair
    await here.nodes.change(PREFIX, lambda _found: ENTRIES)
    await there.learns(PREFIX, ENTRIES)
    lost = there.session.client
    with RawClient(coordinator.port) as other:
        assert other.shake_hands(lost.session_id, lost.session.password)
        other.ask(1, OpCode.CLOSE_SESSION)
    await here.nodes.change(PREFIX, lambda _found: frozenset())
    await here.nodes.change(ORDERS, lambda _found: ENTRIES)
    # Notifications expire, so a broker that was away for long finds none.
    for kind in PATTERN_TYPES:
        for name in await here.session.client.get_children(changes_path(kind)):
            await here.session.client.delete(f"{changes_path(kind)}/{name}")
    assert there.authorizer.acls.get(PREFIX) == ENTRIES
    await there.session.renew()
    await there.learns(ORDERS, ENTRIES)
    assert there.authorizer.acls.get(PREFIX) == frozenset()


@pytest.fixture
def frequent_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the nodes again within 0.05 s."""
    monkeypatch.setattr(node_watch, "REREAD_S", 0.05)


# Before `pair`, which begins to wait for the next read.
@pytest.mark.usefixtures("frequent_reads")
async def test_everything_is_read_again_after_a_refused_read(
    coordinator: Coordinator, pair: Pair
) -> None:
    here, there = pair
    await here.nodes.change(PREFIX, lambda _found: ENTRIES)
    await there.learns(PREFIX, ENTRIES)
    with capture_logs() as lines:
        for kind in PATTERN_TYPES:
            set_acl(coordinator, changes_path(kind), (Acl(30, "world", "anyone"),))
        await here.nodes.change(ORDERS, lambda _found: ENTRIES)
        await until(lambda: [line["event"] for line in lines].count("watch.not_read") >= 4)
        for kind in PATTERN_TYPES:
            # The notification expires meanwhile.
            with suppress(NoNodeError):
                await here.session.client.delete(f"{changes_path(kind)}/acl_changes_0000000000")
            set_acl(coordinator, changes_path(kind), OPEN_ACL)
        await there.learns(ORDERS, ENTRIES)


async def test_malformed_znode_keeps_the_known_entries_and_refuses_a_start(
    coordinator: Coordinator, tmp_path: Path, pair: Pair
) -> None:
    here, there = pair
    await here.nodes.change(ORDERS, lambda _found: ENTRIES)
    await there.learns(ORDERS, ENTRIES)
    other = ResourcePattern(ResourceType.TOPIC, "other")
    with capture_logs() as events:
        await here.session.client.set_data(acl_path(ORDERS), b"broken")
        # Announces the broken znode; the change of the other one shows that it was read.
        prefix = f"{changes_path(PatternType.LITERAL)}/acl_changes_"
        await here.session.client.create(prefix, b"TOPIC:orders", sequential=True)
        await here.session.run(change_acls(other, lambda _found: ENTRIES))
        await there.learns(other, ENTRIES)
    assert there.authorizer.acls.get(ORDERS) == ENTRIES
    assert "acls.not_read" in {event["event"] for event in events}
    async with opened(coordinator, tmp_path / "third") as session:
        with pytest.raises(StartupError, match="/kafka-acl/Topic/orders: not JSON"):
            await Follower(session).nodes.load()
