"""Rebuilding groups from a log of `__consumer_offsets`: `broker.groups.replay`."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.groups.group import Group
from broker.groups.rebalance import GroupLimits
from broker.groups.replay import OffsetsReplay, group_metadata
from broker.groups.state import EMPTY, STABLE
from kafkawire.consumer_protocol import assigned_partitions
from kafkawire.errors import CorruptBatchError
from kafkawire.group_records import (
    CommittedOffset,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from kafkawire.ids import TopicPartition
from kafkawire.messages.offsets_topic import GroupMetadataValue, MemberMetadata
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchBuilder,
    ControlType,
    build_control_batch,
    iterate_batches,
    read_header,
)
from kafkawire.records_header import write_header
from tests.unit.broker.groups.group_driver import SESSION_MS, world_in

LIMITS = GroupLimits(max_size=100, initial_rebalance_delay_ms=0)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 5_000
PRODUCER = 7


class LogOfGroups:
    """Adds batches one after the other, as a loader does."""

    def __init__(self) -> None:
        self.replay = OffsetsReplay()
        self._next_offset = 0

    def add(self, *records: tuple[bytes | None, bytes | None], producer_id: int = -1) -> None:
        """Append a batch; with `producer_id` it belongs to the producer's transaction."""
        is_transactional = producer_id >= 0
        builder = BatchBuilder(
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        for key, value in records:
            builder.append(NOW_MS, key, value)
        self._append(builder.build(self._next_offset))

    def end(self, control: ControlType, *, is_empty: bool = False) -> None:
        """End the producer's transaction; `is_empty` leaves the marker out of its batch."""
        marker = build_control_batch(
            control,
            producer_id=PRODUCER,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
            base_offset=self._next_offset,
        )
        if is_empty:
            del marker[BATCH_HEADER_BYTES:]
            length = len(marker) - LOG_OVERHEAD_BYTES
            header = read_header(marker)._replace(batch_length=length, record_count=0)
            write_header(marker, header)
        self._append(marker)

    def groups(self) -> dict[str, Group]:
        """Return the groups in the log."""
        return {group.group_id: group for group in self.replay.groups(LIMITS, NOW_MS)}

    def _append(self, batch: bytearray) -> None:
        header = read_header(batch)
        self.replay.add(memoryview(batch), header)
        self._next_offset = header.next_offset


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, 0, "", NOW_MS)


def commit(partition: TopicPartition, offset: int | None) -> tuple[bytes, bytes | None]:
    value = None if offset is None else offset_value(at(offset))
    return offset_key("g", partition), value


def offsets(log: LogOfGroups) -> Sequence[int | None]:
    held = log.groups()["g"].offsets
    found = [held.get(P0), held.get(P1)]
    return [None if each is None else each.offset for each in found]


def test_last_offset_counts_and_tombstones_remove_offsets() -> None:
    log = LogOfGroups()
    log.add(commit(P0, 1), commit(P1, 2))
    log.add(commit(P0, 3))
    log.add(commit(P1, None))
    assert offsets(log) == [3, None]
    assert log.replay.record_count == 4


def test_group_without_remaining_records_is_absent() -> None:
    log = LogOfGroups()
    log.add(commit(P0, 1), (group_key("h"), None))
    log.add(commit(P0, None))
    assert log.groups() == {}


def test_group_is_restored_with_its_members() -> None:
    world, member_id = world_in(STABLE, "static")
    world.group.state_timestamp_ms = 77
    value = group_value(group_metadata(world.group, {member_id: b"mine"}))
    log = LogOfGroups()
    log.add((group_key("g"), value), commit(P0, 4))
    group = log.groups()["g"]
    assert (group.state, group.generation_id, group.protocol_name) == (STABLE, 1, "range")
    assert group.members.leader_id == member_id
    assert group.members.member_id_of("static") == member_id
    assert group.members[member_id].assignment == b"mine"
    assert group.rebalance.topics == {"t"}
    assert group.deadlines.next_ms == NOW_MS + SESSION_MS
    assert offsets(log) == [4, None]
    log.add((group_key("g"), None))
    assert log.groups()["g"].generation_id == 0, "only the group's offset is left"


def test_empty_group_is_restored_empty() -> None:
    world, _ = world_in(EMPTY)
    log = LogOfGroups()
    log.add((group_key("g"), group_value(group_metadata(world.group, {}))))
    group = log.groups()["g"]
    assert (group.state, group.generation_id, group.protocol_type) == (EMPTY, 2, "consumer")
    assert group.state_timestamp_ms is None


def test_offsets_of_a_transaction_count_from_its_commit_on() -> None:
    log = LogOfGroups()
    log.add(commit(P0, 1))
    log.add(commit(P0, 5), commit(P1, 6), producer_id=PRODUCER)
    assert offsets(log) == [1, None]
    log.end(ControlType.COMMIT)
    assert offsets(log) == [5, 6]


def test_offsets_of_an_aborted_transaction_never_count() -> None:
    log = LogOfGroups()
    log.add(commit(P0, 1))
    log.add(commit(P0, 5), producer_id=PRODUCER)
    log.end(ControlType.ABORT)
    log.end(ControlType.COMMIT)
    assert offsets(log) == [1, None]


def test_control_batch_without_a_marker_ends_no_transaction() -> None:
    """Compaction leaves an empty batch of a marker without data."""
    log = LogOfGroups()
    log.add(commit(P0, 5), producer_id=PRODUCER)
    log.end(ControlType.COMMIT, is_empty=True)
    assert offsets(log) == [None, None]
    log.end(ControlType.COMMIT)
    assert offsets(log) == [5, None]


def test_plain_commit_during_a_transaction_wins() -> None:
    log = LogOfGroups()
    log.add(commit(P0, 5), commit(P1, None), producer_id=PRODUCER)
    log.add(commit(P0, 9))
    log.end(ControlType.COMMIT)
    assert offsets(log) == [9, None]


def test_unknown_records_are_skipped_and_counted() -> None:
    log = LogOfGroups()
    log.add((b"\0\7new", b"kind"), (None, b"no key"), (offset_key("g", P1), b"\0\7newer"))
    log.add(commit(P0, 1))
    assert offsets(log) == [1, None]
    assert (log.replay.record_count, log.replay.unknown_count) == (4, 3)


def member(member_id: str, instance_id: str | None = None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout=1_000,
        session_timeout=10_000,
    )


def stored(
    *members: MemberMetadata, generation: int = 1, protocol: str | None = "range"
) -> tuple[bytes, bytes]:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=generation, protocol=protocol, members=list(members)
    )
    return group_key("g"), group_value(value)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(stored(member("a"), member("a")), id="two members with one id"),
        pytest.param(
            stored(member("a", "i"), member("b", "i")), id="two members with one instance id"
        ),
        pytest.param(
            stored(member("a", ""), member("b", "")), id="two members with an empty instance id"
        ),
        pytest.param(stored(generation=-1), id="a generation before the first"),
        pytest.param(stored(generation=2**31 - 1), id="a generation without a next one"),
        pytest.param(stored(member("a"), protocol=None), id="members without a protocol"),
    ],
)
def test_group_that_no_coordinator_could_have_stored_is_skipped(
    record: tuple[bytes, bytes],
) -> None:
    log = LogOfGroups()
    log.add(stored(member("first")))
    log.add(record)
    log.add(commit(P0, 1))
    [held] = log.groups()["g"].members
    assert (held.member_id, offsets(log)) == ("first", [1, None])
    assert log.replay.unknown_count == 1


def test_undecodable_batch_with_a_valid_checksum_is_skipped() -> None:
    log = LogOfGroups()
    batch = BatchBuilder()
    batch.append(NOW_MS, b"key", b"value")
    noise = batch.build(0)
    noise[BATCH_HEADER_BYTES:] = bytes([0xFF]) * (len(noise) - BATCH_HEADER_BYTES)
    with pytest.raises(CorruptBatchError):
        log.replay.add(memoryview(noise), read_header(noise))
    write_header(noise, read_header(noise))
    log.replay.add(memoryview(noise), read_header(noise))
    log.add(commit(P0, 1))
    assert (offsets(log), log.replay.unknown_count) == ([1, None], 1)


def test_log_written_by_kafka_is_restored() -> None:
    golden = Path(__file__).parents[2] / "kafkawire" / "golden_group_records.json"
    data = bytes.fromhex(json.loads(golden.read_text(encoding="ascii"))["log"])
    replay = OffsetsReplay()
    for header, batch in iterate_batches(data):
        replay.add(batch, header)
    groups = {group.group_id: group for group in replay.groups(LIMITS, NOW_MS)}
    assert {name: group.state for name, group in groups.items()} == {
        "golden": STABLE,
        "simple": EMPTY,
        "emptied": EMPTY,
    }
    golden_group = groups["golden"]
    assert golden_group.generation_id == 1
    assert golden_group.rebalance.topics == {"orders"}
    members = list(golden_group.members)
    assert {member.instance_id for member in members} == {"static-0", "static-1"}
    assigned = {each for member in members for each in assigned_partitions(member.assignment)}
    assert assigned == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    offsets_of = {
        name: {each.partition: (group.offsets.get(each) or at(-1)).offset for each in found}
        for name, group in groups.items()
        if (found := group.offsets.partitions())
    }
    assert offsets_of == {"golden": {0: 100, 1: 101}, "simple": {0: 7, 1: 8}, "emptied": {1: 55}}
    assert (groups["emptied"].generation_id, groups["emptied"].protocol_type) == (2, "consumer")
