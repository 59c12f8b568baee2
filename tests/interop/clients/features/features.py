"""The features of the table of clients: each is one run of a client against a live broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, Protocol

import ottla
from ottla.client.admin_model import ResourceType
from tests.integration.coordination.process import POLL_INTERVAL_S

PARTITIONS: Final = 4
WAIT_S: Final = 60.0
POLL_S: Final = 0.2
POLL_MS: Final = 200
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")


class NotOffered(Exception):  # noqa: N818 - no error: the client has no such function
    """The client has no function for this."""


class AnyPartition(Protocol):
    """A partition, in the words of any library."""

    @property
    def partition(self) -> int:
        """Its number."""


class Member(Protocol):
    """A member of a group."""

    async def assigned(self) -> set[int]:
        """Poll once, and return the partitions that the member has now."""


class Assigned:
    """A member with a consumer in this process: `poll` polls it once, for `POLL_S`."""

    def __init__(
        self,
        poll: Callable[[], Awaitable[object]],
        assignment: Callable[[], Iterable[AnyPartition]],
    ) -> None:
        self._poll = poll
        self._assignment = assignment

    async def assigned(self) -> set[int]:
        await self._poll()
        return {each.partition for each in self._assignment()}


class Client(Protocol):
    """A client library, as the features use it. A function that it lacks raises `NotOffered`."""

    async def write(self, topic: str, values: Sequence[bytes], *, codec: str | None = None) -> None:
        """Write to partition 0 with acks=all, without idempotence."""

    async def write_once(self, topic: str, values: Sequence[bytes]) -> None:
        """Write to partition 0 as an idempotent producer."""

    async def read(self, topic: str, count: int, *, committed: bool = False) -> list[bytes]:
        """Read partition 0 from its beginning."""

    async def transact(self, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        """Write to partition 0 in a transaction."""

    async def transact_offset(self, topic: str, group: str, offset: int) -> None:
        """Commit an offset of partition 0 in a transaction."""

    def member(
        self, topic: str, group: str, *, instance: str | None = None, cooperative: bool = False
    ) -> AbstractAsyncContextManager[Member]:
        """Be a member of a group; a static one as `instance`."""

    async def offset_at(self, topic: str, timestamp_ms: int) -> int:
        """Return the first offset of partition 0 from a time on."""

    async def read_matching(self, pattern: str, count: int, group: str) -> list[bytes]:
        """Subscribe to the topics with names that match."""

    async def create_and_delete(self, topic: str) -> None:
        """Create a topic, see it in the list, delete it."""

    async def configure(self, topic: str) -> None:
        """Set retention.ms of a topic to 1234 and leave its other configs alone."""

    async def delete_group(self, group: str) -> None:
        """See a group in the list, and delete it."""

    async def delete_records(self, topic: str, before: int) -> None:
        """Delete the records of partition 0 before an offset."""


Feature = Callable[[Client, str, str], Awaitable[None]]
"""Uses a client at a broker's address, with a topic of its own."""


async def compression(client: Client, address: str, topic: str) -> None:
    """Every codec."""
    await create(address, topic)
    for codec in CODECS:
        await client.write(topic, [codec.encode() * 100], codec=codec)
    assert await client.read(topic, 4) == [codec.encode() * 100 for codec in CODECS]


async def records(client: Client, address: str, topic: str) -> None:
    """Produce with acks=all, and read."""
    await create(address, topic)
    values = [b"%d" % number for number in range(100)]
    await client.write(topic, values)
    assert await client.read(topic, 100) == values


async def idempotence(client: Client, address: str, topic: str) -> None:
    """An idempotent producer: its batches have a producer id."""
    await create(address, topic)
    await client.write_once(topic, [b"a", b"b"])
    assert await client.read(topic, 2) == [b"a", b"b"]
    async with ottla.Admin(address) as admin:
        where = ottla.TopicPartition(topic, 0)
        assert (await admin.describe_producers([where]))[where], "no producer id"


async def transactions(client: Client, address: str, topic: str) -> None:
    """Read the records of committed transactions only."""
    await create(address, topic)
    await client.transact(topic, [b"aborted"], commit=False)
    await client.transact(topic, [b"committed"], commit=True)
    assert await client.read(topic, 1, committed=True) == [b"committed"]


async def offsets_in_transactions(client: Client, address: str, topic: str) -> None:
    """Commit offsets of a group in a transaction."""
    await create(address, topic)
    group = f"{topic}-group"
    await client.transact_offset(topic, group, 7)
    async with ottla.Admin(address) as admin:
        found = await admin.list_group_offsets(group)
    assert found[ottla.TopicPartition(topic, 0)].offset == 7


async def groups(client: Client, address: str, topic: str) -> None:
    """Two members of a group share the partitions."""
    await create(address, topic)
    async with AsyncExitStack() as stack:
        members = [
            await stack.enter_async_context(client.member(topic, f"{topic}-group"))
            for _ in range(2)
        ]

        async def is_shared() -> bool:
            one, other = await asyncio.gather(*(each.assigned() for each in members))
            return bool(one and other) and one | other == set(range(PARTITIONS)) and not one & other

        await until(is_shared)


async def static_members(client: Client, address: str, topic: str) -> None:
    """A member with a name that survives its restarts (KIP-345)."""
    await create(address, topic)
    group = f"{topic}-group"
    async with client.member(topic, group, instance="first") as member, ottla.Admin(address) as a:

        async def is_static() -> bool:
            await member.assigned()
            members = (await a.describe_group(group)).members
            return [each.instance_id for each in members] == ["first"]

        await until(is_static)


async def cooperative_groups(client: Client, address: str, topic: str) -> None:
    """Members keep their other partitions while one moves (KIP-429)."""
    await create(address, topic)
    group = f"{topic}-group"
    async with client.member(topic, group, cooperative=True) as member, ottla.Admin(address) as a:

        async def is_cooperative() -> bool:
            has_partitions = await member.assigned() == set(range(PARTITIONS))
            found = await a.describe_group(group)
            return has_partitions and found.assignor == "cooperative-sticky"

        await until(is_cooperative)


async def offsets_by_time(client: Client, address: str, topic: str) -> None:
    """Find the first offset from a time on."""
    # Retention would delete the records, whose timestamps are old.
    await create(address, topic, {"retention.ms": "-1"})
    async with ottla.Producer(address) as producer:
        for number in range(3):
            timestamp_ms = 1_700_000_000_000 + number * 1_000
            await producer.send_and_wait(topic, b"v", partition=0, timestamp_ms=timestamp_ms)
    assert await client.offset_at(topic, 1_700_000_000_500) == 1


async def patterns(client: Client, address: str, topic: str) -> None:
    """Subscribe to topics by a pattern of their names."""
    for name in ("one", "two"):
        await create(address, f"{topic}-{name}")
        async with ottla.Producer(address) as producer:
            await producer.send_and_wait(f"{topic}-{name}", name.encode(), partition=0)
    found = await client.read_matching(f"^{topic}-.*", 2, f"{topic}-group")
    assert sorted(found) == [b"one", b"two"]


async def topics(client: Client, address: str, topic: str) -> None:
    """Create, list and delete topics."""
    await client.create_and_delete(topic)

    async def is_gone() -> bool:
        async with ottla.Admin(address) as admin:
            return topic not in await admin.list_topics()

    await until(is_gone)


async def configs(client: Client, address: str, topic: str) -> None:
    """Change one config of a topic, and leave the others (KIP-339)."""
    await create(address, topic)
    async with ottla.Admin(address) as admin:
        kind = ResourceType.TOPIC
        await admin.alter_configs(kind, topic, {"segment.bytes": "1000000"})
        await client.configure(topic)

        async def is_changed() -> bool:
            found = await admin.describe_configs(kind, topic)
            values = (found["retention.ms"].value, found["segment.bytes"].value)
            return values == ("1234", "1000000")

        await until(is_changed)


async def group_administration(client: Client, address: str, topic: str) -> None:
    """List and delete groups."""
    await create(address, topic)
    group = f"{topic}-group"
    async with ottla.Admin(address) as admin:
        await admin.alter_group_offsets(group, {ottla.TopicPartition(topic, 0): 0})
        await client.delete_group(group)
        assert group not in [each.group_id for each in await admin.list_groups()]


async def record_deletion(client: Client, address: str, topic: str) -> None:
    """Delete the records before an offset."""
    await create(address, topic)
    async with ottla.Producer(address) as producer:
        for value in (b"0", b"1", b"2"):
            await producer.send_and_wait(topic, value, partition=0)
    await client.delete_records(topic, 2)
    assert await client.read(topic, 1) == [b"2"]


FEATURES: Final[Mapping[str, Feature]] = {
    "produce with acks=all, consume": records,
    "gzip, snappy, lz4, zstd": compression,
    "idempotent producer": idempotence,
    "transactions, read_committed": transactions,
    "offsets in a transaction": offsets_in_transactions,
    "groups that share partitions": groups,
    "static members (KIP-345)": static_members,
    "cooperative rebalancing (KIP-429)": cooperative_groups,
    "offsets by time": offsets_by_time,
    "subscription by pattern": patterns,
    "create, list, delete topics": topics,
    "change one config of a topic (KIP-339)": configs,
    "list and delete groups": group_administration,
    "delete records": record_deletion,
}


async def create(address: str, topic: str, configs: Mapping[str, str] | None = None) -> None:
    """Create a topic, and wait until the broker leads it."""
    async with ottla.Admin(address) as admin:
        await admin.create_topics([ottla.NewTopic(topic, PARTITIONS, configs=configs or {})])

        async def is_led() -> bool:
            found = (await admin.describe_all_topics()).get(topic)
            return found is not None and all(each.leader >= 0 for each in found.partitions)

        await until(is_led)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return once `condition` holds; fail after `WAIT_S`."""
    deadline_s = time.monotonic() + WAIT_S
    while not await condition():
        assert time.monotonic() < deadline_s, f"not within {WAIT_S} s: {condition}"
        await asyncio.sleep(POLL_INTERVAL_S)
