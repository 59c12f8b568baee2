"""Moves of partitions and their throttles, with a cluster in memory."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, cast

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicPartition
from ottla.cli import cluster_moves
from ottla.cli.cluster_moves import MoveRequest, move, unthrottle
from ottla.cli.command_config import ClusterAccess
from ottla.cli.failure import CommandError
from ottla.client.admin_model import (
    ClusterDescription,
    ConfigEntry,
    Reassignment,
    ResourceType,
    TopicDescription,
)
from ottla.client.client_config import Address
from ottla.client.cluster_metadata import PartitionMetadata
from ottla.client.errors import BrokerError, ConnectionLostError, UnknownTopicError

BIG, SMALL = TopicPartition("big", 0), TopicPartition("small", 0)
RATES = {"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
STAYS = (
    "ottla: a throttle stays: remove it with `ottla cluster unthrottle` once no partition moves.\n"
)


class Cluster:
    """Brokers 1 to 3, their partitions, configs and moves; it is its own admin client."""

    def __init__(self, *partitions: TopicPartition) -> None:
        self.replicas: dict[TopicPartition, tuple[int, ...]] = dict.fromkeys(partitions, (1,))
        self.configs: dict[str, dict[str, str]] = {}
        self.moving: dict[TopicPartition, tuple[int, ...]] = {}
        self.stuck = {BIG}
        """Partitions whose moves do not complete."""
        self.cancelled: set[TopicPartition] = set()
        """Partitions whose moves somebody cancels."""
        self.stale: list[dict[TopicPartition, tuple[int, ...]]] = []
        """Replicas that brokers still believe in, one image per description."""
        self.refused: dict[TopicPartition, Exception] = {}
        self.listed = asyncio.Event()

    @property
    def access(self) -> ClusterAccess:
        return cast("ClusterAccess", self)

    def admin(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        pass

    async def list_topics(self, *, include_internal: bool) -> list[str]:
        assert include_internal
        return sorted({each.topic for each in self.replicas})

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        replicas = self.stale.pop() if self.stale else self.replicas
        return {name: self._described(name, replicas) for name in names}

    def _described(
        self, name: str, replicas_of: Mapping[TopicPartition, tuple[int, ...]]
    ) -> TopicDescription:
        parts = tuple(
            PartitionMetadata(partition=each.partition, replicas=tuple(map(BrokerId, replicas)))
            for each, replicas in sorted(replicas_of.items())
            if each.topic == name
        )
        if not parts:
            raise UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")
        return TopicDescription(
            name=name, topic_id=ZERO_TOPIC_ID, is_internal=False, partitions=parts
        )

    async def describe_cluster(self) -> ClusterDescription:
        ids = list(map(BrokerId, (1, 2, 3)))
        return ClusterDescription(
            cluster_id="c",
            controller_id=ids[0],
            brokers={each: Address("broker", each) for each in ids},
            racks=dict.fromkeys(ids),
        )

    async def describe_configs(
        self, kind: ResourceType, name: str, keys: Iterable[str]
    ) -> dict[str, ConfigEntry]:
        assert kind is ResourceType.TOPIC
        configs = self.configs.get(name, {})
        return {
            key: ConfigEntry(
                name=key,
                value=configs.get(key, ""),
                source=1 if key in configs else 5,
                is_default=key not in configs,
                is_read_only=False,
                is_sensitive=False,
                documentation=None,
            )
            for key in keys
        }

    async def alter_configs(
        self, kind: ResourceType, name: str, changes: Mapping[str, str | None]
    ) -> None:
        if kind is ResourceType.TOPIC:
            self._described(name, self.replicas)
        configs = self.configs.setdefault(name, {})
        for key, value in changes.items():
            configs.pop(key, None)
            if value is not None:
                configs[key] = value

    async def alter_reassignments(
        self, moves: Mapping[TopicPartition, Sequence[int] | None]
    ) -> None:
        for where, targets in moves.items():
            if where not in self.refused:
                assert targets is not None
                self.moving[where] = tuple(targets)
        for error in self.refused.values():
            raise error

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        self.listed.set()
        for where in self.moving.keys() - self.stuck:
            targets = self.moving.pop(where)
            if where not in self.cancelled:
                self.replicas[where] = targets
        wanted = self.moving if partitions is None else set(partitions) & self.moving.keys()
        return {where: Reassignment(replicas=(), adding=(), removing=()) for where in wanted}

    def throttled(self) -> set[str]:
        """Return the brokers and topics with a throttle."""
        return {name for name, configs in self.configs.items() if configs}


def throttled_move(*places: TopicPartition) -> MoveRequest:
    moves = tuple(f"{topic}:{number}=2" for topic, number in places)
    return MoveRequest(moves, None, None, is_cancelling=False, rate=1_000)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_moves, "POLL_INTERVAL_S", 0)


async def test_a_throttled_move_that_completes_leaves_no_throttle(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(SMALL)
    assert await move(cluster.access, throttled_move(SMALL), is_waiting=True) == [SMALL]
    assert (cluster.throttled(), capsys.readouterr().err) == (set(), "")


async def test_the_end_of_a_move_keeps_the_throttle_of_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(BIG, SMALL)
    await move(cluster.access, throttled_move(BIG), is_waiting=False)
    await move(cluster.access, throttled_move(SMALL), is_waiting=True)
    assert cluster.throttled() == {"1", "2", "big"}
    assert set(cluster.configs["1"]) == RATES
    assert capsys.readouterr().err == STAYS


async def test_the_throttle_of_a_topic_stays_while_another_partition_of_it_moves() -> None:
    other = TopicPartition("big", 1)
    cluster = Cluster(BIG, other)
    await move(cluster.access, throttled_move(BIG), is_waiting=False)
    await move(cluster.access, throttled_move(other), is_waiting=True)
    assert cluster.throttled() == {"1", "2", "big"}


async def test_a_throttled_move_keeps_the_throttle_of_another_partition() -> None:
    other = TopicPartition("big", 1)
    cluster = Cluster(BIG, other)
    for place in (BIG, other):
        cluster.stuck.add(place)
        await move(cluster.access, throttled_move(place), is_waiting=False)
    configs = cluster.configs["big"]
    assert configs["leader.replication.throttled.replicas"] == "0:1,1:1"
    assert configs["follower.replication.throttled.replicas"] == "0:2,1:2"


async def test_unthrottle_keeps_the_rates_of_brokers_while_partitions_move(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(BIG, SMALL)
    await move(cluster.access, throttled_move(BIG), is_waiting=False)
    await move(cluster.access, throttled_move(SMALL), is_waiting=False)
    assert await unthrottle(cluster.access, ["small"]) == ["small"]
    assert cluster.throttled() == {"1", "2", "big"}
    assert capsys.readouterr().err == STAYS
    cluster.stuck.clear()
    assert await unthrottle(cluster.access, None) == ["big", "small"]
    assert (cluster.throttled(), capsys.readouterr().err) == (set(), "")


async def test_a_refused_move_leaves_no_throttle(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(SMALL)
    cluster.refused[SMALL] = BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partition small-0")
    with pytest.raises(BrokerError, match="small-0"):
        await move(cluster.access, throttled_move(SMALL), is_waiting=True)
    assert (cluster.throttled(), capsys.readouterr().err) == (set(), "")


async def test_a_move_refused_in_part_keeps_the_throttle_of_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(BIG, SMALL)
    cluster.refused[SMALL] = BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partition small-0")
    with pytest.raises(BrokerError, match="small-0"):
        await move(cluster.access, throttled_move(BIG, SMALL), is_waiting=True)
    assert cluster.throttled() == {"1", "2", "big"}
    assert capsys.readouterr().err == STAYS


async def test_a_lost_cluster_leaves_its_error_and_a_hint_at_the_throttle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(BIG)
    lost = ConnectionLostError("the controller is lost")

    async def fail(*_: object) -> None:
        raise lost

    monkeypatch.setattr(cluster, "list_reassignments", fail)
    with pytest.raises(ConnectionLostError) as raised:
        await move(cluster.access, throttled_move(BIG), is_waiting=True)
    assert raised.value is lost
    assert [f"ottla: {note}\n" for note in lost.__notes__] == [STAYS]


async def test_an_interrupted_move_says_that_its_throttle_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(BIG)
    moving = asyncio.create_task(move(cluster.access, throttled_move(BIG), is_waiting=True))
    await cluster.listed.wait()
    moving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moving
    assert cluster.throttled() == {"1", "2", "big"}
    assert capsys.readouterr().err == STAYS


def unthrottled_move(*places: str, brokers: str | None = None) -> MoveRequest:
    return MoveRequest(places, brokers, None, is_cancelling=False)


async def test_a_partition_that_does_not_exist_is_not_spread() -> None:
    cluster = Cluster(SMALL)
    for places in (["small:99"], ["small:0", "small:99"]):
        request = unthrottled_move(*places, brokers="2")
        with pytest.raises(CommandError, match="small-99 does not exist"):
            await move(cluster.access, request, is_waiting=False)
    assert cluster.moving == {}


async def test_a_move_that_somebody_cancels_has_failed() -> None:
    cluster = Cluster(BIG, SMALL)
    cluster.stuck.clear()
    cluster.cancelled.add(SMALL)
    with pytest.raises(CommandError, match=r"small-0 was not moved.* 1 instead of 2") as raised:
        await move(cluster.access, throttled_move(BIG, SMALL), is_waiting=True)
    assert (raised.value.exit_code, raised.value.notes) == (1, ())
    assert (cluster.throttled(), cluster.replicas[BIG]) == (set(), (2,))


async def test_a_move_of_a_topic_that_somebody_deletes_has_failed() -> None:
    cluster = Cluster(BIG)
    moving = asyncio.create_task(move(cluster.access, throttled_move(BIG), is_waiting=True))
    await cluster.listed.wait()
    cluster.moving.clear()
    cluster.replicas.clear()
    with pytest.raises(UnknownTopicError) as raised:
        await moving
    assert not hasattr(raised.value, "__notes__")
    assert cluster.throttled() == {"big"}, "the configs of the topic are gone, too"


async def test_a_move_has_completed_before_all_brokers_know() -> None:
    cluster = Cluster(SMALL)
    cluster.stale = [dict(cluster.replicas)] * 2
    assert await move(cluster.access, unthrottled_move("small:0=2"), is_waiting=True) == [SMALL]
