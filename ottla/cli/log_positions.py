"""Partitions and offsets that command-line arguments name (composition).

It combines admin requests.
"""

from collections.abc import Iterable, Mapping, Sequence

from kafkawire.ids import TopicPartition
from kafkawire.sentinels import NO_OFFSET
from ottla.cli.failure import EXIT_USAGE, CommandError
from ottla.cli.partition_argument import expand, parse_partition
from ottla.cli.start_point import AtOffset, AtTime, Beginning, End, ResetPoint, ShiftBy
from ottla.client.admin.admin import Admin
from ottla.client.admin_model import OffsetSpec


async def named_partitions(admin: Admin, places: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that texts like `orders` and `orders:0` name.

    Raises:
        CommandError: a text is not of that form, or a partition does not exist.
    """
    try:
        named = [parse_partition(place) for place in places]
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    described = await admin.describe_topics({topic for topic, _ in named})
    counts = {name: len(topic.partitions) for name, topic in described.items()}
    partitions = expand(named, counts)
    for each in partitions:
        if each.partition >= counts[each.topic]:
            raise CommandError(
                f"{each} does not exist: {each.topic} has {counts[each.topic]} partitions, "
                "numbered from 0."
            )
    return sorted(set(partitions))


async def offsets_at(
    admin: Admin, partitions: Sequence[TopicPartition], start: Beginning | End | AtOffset | AtTime
) -> dict[TopicPartition, int]:
    """Return the offset of `start` in each partition, clamped to the range of its log."""
    if isinstance(start, Beginning):
        return await _places(admin, partitions, OffsetSpec.EARLIEST)
    if isinstance(start, AtOffset):
        return await clamped(admin, dict.fromkeys(partitions, start.offset))
    ends = await _places(admin, partitions, OffsetSpec.LATEST)
    if isinstance(start, AtTime):
        found = await _places(admin, partitions, start.timestamp_ms)
        return {each: ends[each] if found[each] == NO_OFFSET else found[each] for each in found}
    return ends


async def group_offsets_at(
    admin: Admin,
    group_id: str,
    partitions: Sequence[TopicPartition],
    start: ResetPoint,
    committed: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the offset of `start` in each partition, where a group has committed `committed`.

    Raises:
        CommandError: there is no offset to shift.
    """
    if not isinstance(start, ShiftBy):
        return await offsets_at(admin, partitions, start)
    if missing := sorted(set(partitions) - committed.keys()):
        raise CommandError(f"group {group_id} has no offset of {missing[0]} to shift.")
    return await clamped(admin, {each: committed[each] + start.count for each in partitions})


async def clamped(admin: Admin, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the offsets, moved into the range of each log."""
    begins = await _places(admin, offsets, OffsetSpec.EARLIEST)
    ends = await _places(admin, offsets, OffsetSpec.LATEST)
    return {each: min(max(offset, begins[each]), ends[each]) for each, offset in offsets.items()}


async def _places(
    admin: Admin, partitions: Iterable[TopicPartition], spec: int
) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(dict.fromkeys(partitions, int(spec)))
    return {each: place.offset for each, place in found.items()}


async def delete_before(
    admin: Admin, places: Sequence[str], start: End | AtOffset | AtTime
) -> dict[TopicPartition, int]:
    """Delete the records before `start`; return the new log start offsets.

    Raises:
        CommandError: a partition does not exist.
    """
    wanted = await offsets_at(admin, await named_partitions(admin, places), start)
    return dict(sorted((await admin.delete_records(wanted)).items()))
