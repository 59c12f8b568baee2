"""Writes to `__consumer_offsets`: told to have succeeded only in the epoch of their append."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from broker.groups.store import GroupStore, KeyValue, commit_error, rebalance_error
from kafkawire.compression import Codec
from kafkawire.errors import ErrorCode
from kafkawire.group_records import OFFSETS_TOPIC, CommittedOffset, offset_key, offset_value
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.records import read_records
from tests.unit.broker import replicas
from tests.unit.broker.replicas import B2, NOW_MS, World, lead_alone, turn

KEY = TopicPartition(OFFSETS_TOPIC, 0)
E0, E1 = LeaderEpoch(0), LeaderEpoch(1)
RECORDS: Sequence[KeyValue] = [(b"key", b"value"), (b"gone", None)]


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(replicas, "PARTITION", KEY)
    return World(tmp_path)


class Told:
    """Remembers what became of a write."""

    def __init__(self, world: World, timeout_ms: int = 60_000) -> None:
        self.answers: list[tuple[ErrorCode, int]] = []
        self._store = GroupStore(
            world.replicas,
            world.purgatory,
            codec=Codec.NONE,
            commit_timeout_ms=timeout_ms,
            now_ms=lambda: NOW_MS,
        )

    def append(
        self,
        epoch: LeaderEpoch = E0,
        partition: int = 0,
        records: Iterable[KeyValue] = RECORDS,
    ) -> None:
        def note(error: ErrorCode, offset: int) -> None:
            self.answers.append((error, offset))

        self._store.append(partition, epoch, records, note)


async def test_a_write_that_needs_nobody_else_is_told_at_once(world: World) -> None:
    told = Told(world)
    told.append()
    told.append()
    assert told.answers == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 2)]
    data = world.replicas.read(KEY, 0, 1 << 20, min_one_batch=True).records
    assert data is not None
    found = [(record.key, record.value) for record in read_records(data.read())]
    assert found == RECORDS


async def test_records_that_cannot_be_encoded_are_told_like_any_failure(world: World) -> None:
    def records() -> Iterator[KeyValue]:
        too_late = CommittedOffset(1, -1, "", NOW_MS, 2**63)
        yield offset_key("g", TopicPartition("t", 0)), offset_value(too_late)

    told = Told(world)
    told.append(records=records())
    assert told.answers == [(ErrorCode.RECORD_LIST_TOO_LARGE, -1)]


async def test_a_write_is_told_when_it_is_replicated(world: World) -> None:
    told = Told(world)
    world.replicate_to(B2)
    told.append()
    world.follower_fetches(B2, 1)
    await turn()
    assert told.answers == []
    world.follower_fetches(B2, 2)
    await turn()
    assert told.answers == [(ErrorCode.NONE, 0)]


async def test_a_write_is_not_told_to_have_worked_in_a_later_epoch(world: World) -> None:
    """Of a log that was cut and grew anew the watermark says nothing (KAFKA-20634)."""
    told = Told(world)
    world.replicate_to(B2)
    told.append()
    world.replicas.remove(KEY)
    world.log.truncate_to(Offset(0))
    lead_alone(world.replicas, world.log, E1)
    again = Told(world)
    again.append(E1)
    await turn()
    assert world.replicas.is_committed(KEY, Offset(1)), "or else this proves nothing"
    assert again.answers == [(ErrorCode.NONE, 0)]
    assert told.answers == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)]


async def test_a_write_in_an_epoch_that_is_over_is_refused(world: World) -> None:
    told = Told(world)
    told.append(LeaderEpoch(7))
    told.append(E0, partition=1)
    assert told.answers == [
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert world.log.log_end_offset == 0


async def test_a_write_that_is_not_replicated_in_time_is_told_so(world: World) -> None:
    told = Told(world, timeout_ms=0)
    world.replicate_to(B2)
    told.append()
    await turn()
    world.purgatory.close()
    assert told.answers == [(ErrorCode.REQUEST_TIMED_OUT, 0)]


async def test_too_few_replicas_refuse_a_write(world: World) -> None:
    told = Told(world)
    world.replicate_to(min_insync_replicas=2)
    told.append()
    assert told.answers == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]


@pytest.mark.parametrize(
    ("error", "to_committer", "to_member"),
    [
        (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE),
        (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ),
        (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.NOT_COORDINATOR,
        ),
        (
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.REBALANCE_IN_PROGRESS,
        ),
        (
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_clients_are_told_what_they_understand(
    error: ErrorCode, to_committer: ErrorCode, to_member: ErrorCode
) -> None:
    assert (commit_error(error), rebalance_error(error)) == (to_committer, to_member)
