"""Rebuilds groups and offsets from the records of `__consumer_offsets` (decision).

Records are added in the order of the log. The last record of a key counts, and a tombstone deletes
it, also among undecided offsets: an offset that was committed in a transaction counts from the
marker on, and stays undecided if there is none. Records with an unknown
version are skipped and counted: a newer broker may have written them. So are records that no
coordinator writes: any producer with access to the topic could have written them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from broker.groups.group import Group
from broker.groups.members import Member
from broker.groups.rebalance import GroupLimits
from broker.groups.undecided import Placed, UndecidedOffsets, keep_later
from kafkawire.errors import CorruptBatchError, DecodeError
from kafkawire.group_records import (
    GroupKey,
    OffsetKey,
    read_group_value,
    read_key,
    read_offset_value,
)
from kafkawire.ids import TopicPartition
from kafkawire.messages.offsets_topic import GroupMetadataValue, MemberMetadata
from kafkawire.records import (
    BatchHeader,
    ControlType,
    Record,
    crc_matches,
    read_control_batch,
    read_records_as,
)
from kafkawire.sentinels import NO_TIMESTAMP

MAX_GENERATION: Final = 2**31 - 1
"""Largest generation in a response; a group that has reached it could not be rebalanced."""


class OffsetsReplay:
    """State of the groups of one partition after the records that were added."""

    def __init__(self) -> None:
        self.record_count = 0
        self.unknown_count = 0
        self._groups: dict[str, GroupMetadataValue] = {}
        self._offsets: defaultdict[str, dict[TopicPartition, Placed]] = defaultdict(dict)
        self._undecided: defaultdict[str, UndecidedOffsets] = defaultdict(UndecidedOffsets)
        # Groups with undecided offsets, by producer.
        self._open: defaultdict[int, dict[str, None]] = defaultdict(dict)

    def add(self, batch: memoryview, header: BatchHeader) -> None:
        """Add the next batch of the log.

        Raises:
            CorruptBatchError: the batch is damaged; none of it was added.
        """
        try:
            self._add_batch(batch, header)
        except CorruptBatchError:
            if not crc_matches(batch, header):
                raise
            # Not damaged: it was written like this, but not by a coordinator.
            self.unknown_count += header.record_count

    def groups(self, limits: GroupLimits, now_ms: int) -> list[Group]:
        """Return every group that has members, a generation or offsets."""
        names = {
            *self._groups,
            *(name for name, held in self._offsets.items() if held),
            *(name for name, undecided in self._undecided.items() if undecided),
        }
        return [self._group(name, limits, now_ms) for name in sorted(names)]

    def _add_batch(self, batch: memoryview, header: BatchHeader) -> None:
        if header.is_control:
            self._decide(batch, header)
            return
        for record in read_records_as(Record, batch, header=header):
            self.record_count += 1
            try:
                self._add(record, header)
            except DecodeError:
                self.unknown_count += 1

    def _add(self, record: Record, header: BatchHeader) -> None:
        if record.key is None:
            raise DecodeError("the record has no key")
        key = read_key(record.key)
        if isinstance(key, OffsetKey):
            if record.value is None:
                self._delete(key, header)
            elif header.is_transactional:
                value = read_offset_value(record.value)
                self._open[header.producer_id][key.group_id] = None
                self._undecided[key.group_id].add(
                    header.producer_id, {key.topic_partition: value}, header.base_offset
                )
            else:
                placed = (read_offset_value(record.value), header.base_offset)
                self._offsets[key.group_id][key.topic_partition] = placed
        elif isinstance(key, GroupKey):
            if record.value is None:
                self._groups.pop(key.group_id, None)
            else:
                group_value = read_group_value(record.value)
                _require_restorable(group_value)
                self._groups[key.group_id] = group_value
        else:
            self.unknown_count += 1

    def _delete(self, key: OffsetKey, header: BatchHeader) -> None:
        group_id, partition = key.group_id, key.topic_partition
        if header.is_transactional:
            self._undecided[group_id].remove([partition], header.producer_id)
        else:
            self._offsets[group_id].pop(partition, None)
            self._undecided[group_id].remove([partition])

    def _decide(self, batch: memoryview, header: BatchHeader) -> None:
        marker = read_control_batch(batch)
        if marker is None:
            return
        for group_id in self._open.pop(header.producer_id, ()):
            taken = self._undecided[group_id].take(header.producer_id, header.base_offset)
            if marker.control_type is ControlType.COMMIT:
                keep_later(self._offsets[group_id], taken)

    def _group(self, group_id: str, limits: GroupLimits, now_ms: int) -> Group:
        group = Group(group_id, limits)
        value = self._groups.get(group_id)
        if value is not None:
            stamp_ms = value.current_state_timestamp
            group.restore(
                [_member(each, value.protocol) for each in value.members],
                generation_id=value.generation,
                protocol_type=value.protocol_type or None,
                protocol_name=value.protocol,
                leader_id=value.leader,
                state_timestamp_ms=None if stamp_ms == NO_TIMESTAMP else stamp_ms,
                now_ms=now_ms,
            )
        for partition, (committed, position) in self._offsets[group_id].items():
            group.offsets.restore(partition, committed, position)
        group.offsets.undecided = self._undecided[group_id]
        return group


def _require_restorable(value: GroupMetadataValue) -> None:
    """Check that a coordinator could have stored a group.

    Raises:
        DecodeError: its members or its generation contradict each other.
    """
    member_ids = [each.member_id for each in value.members]
    instance_ids = [
        each.group_instance_id for each in value.members if each.group_instance_id is not None
    ]
    for kind, ids in (("member id", member_ids), ("instance id", instance_ids)):
        if len(set(ids)) < len(ids):
            raise DecodeError(f"two members have the same {kind}")
    if not 0 <= value.generation < MAX_GENERATION:
        raise DecodeError(f"generation {value.generation} must be within 0..{MAX_GENERATION - 1}")
    if value.members and value.protocol is None:
        raise DecodeError(f"{len(value.members)} members have no common protocol")


def _member(value: MemberMetadata, protocol_name: str | None) -> Member:
    return Member(
        member_id=value.member_id,
        instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        session_timeout_ms=value.session_timeout,
        rebalance_timeout_ms=value.rebalance_timeout,
        # It sends its other protocols when it joins again.
        protocols=((protocol_name or "", value.subscription),),
        assignment=value.assignment,
    )


def group_metadata(group: Group, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
    """Return the log's record of a group with these assignments of its members."""
    protocol_name, stamp_ms = group.protocol_name, group.state_timestamp_ms
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol_name,
        leader=group.members.leader_id,
        current_state_timestamp=NO_TIMESTAMP if stamp_ms is None else stamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(protocol_name or ""),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members
        ],
    )
