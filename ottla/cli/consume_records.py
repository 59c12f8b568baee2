"""Reads topics with our consumer and writes its records to standard output (composition)."""

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from kafkawire.ids import Offset, TopicPartition
from ottla.cli.command_config import ClusterAccess
from ottla.cli.failure import CommandError, complain
from ottla.cli.output_record import WriteRecord, record_size_bytes
from ottla.cli.start_point import AtOffset, AtTime, Beginning, End, StartPoint
from ottla.cli.transfer import Transfer
from ottla.client.admin.admin import Admin
from ottla.client.client_config import ResetPolicy
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.group.topic_pattern import parse_pattern
from ottla.client.record import ConsumerRecord

BATCH_RECORDS: Final = 5_000
POLL_TIMEOUT_MS: Final = 500
SILENT_WAIT_S: Final = 5.0
ABSENCE_PATIENCE_S: Final = 1.0
"""Time for which a topic must be missing before this is reported."""
ABSENCE: Final = (
    "does not exist any more: waiting until a topic of this name is created, or for Ctrl-C."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """Topics to read, by name or by pattern, start point and end condition."""

    access: ClusterAccess
    topics: list[str]
    regex: str | None
    partitions: list[int] | None
    start: StartPoint
    group: str | None
    max_records: int | None
    is_following: bool


async def consume_records(options: ConsumeOptions, write: WriteRecord, transfer: Transfer) -> None:
    """Write records to standard output up to the end of the topics or to the limit.

    With `is_following` a topic has no end, and only the limit ends the work. A topic that was
    deleted is reported, and its successor is read.
    """
    reset: ResetPolicy = "latest" if isinstance(options.start, End) else "earliest"
    async with Consumer(
        options.access.bootstrap,
        group_id=options.group,
        auto_offset_reset=reset,
        **options.access.security,
    ) as consumer:
        partitions = await _partitions(consumer, options)
        ends = None if options.is_following else await consumer.end_offsets(partitions)
        if options.group is None:
            consumer.assign(partitions)
            await _seek(consumer, partitions, options.start)
        elif options.regex is not None:
            consumer.subscribe(pattern=options.regex)
        else:
            consumer.subscribe(options.topics)
        loop = asyncio.get_running_loop()
        reminder, absences = Reminder(loop.time()), Absences()
        while ends is None or _is_anything_left(consumer, ends):
            wanted = _wanted(options.max_records, transfer.record_count)
            if wanted == 0:
                return
            records = await consumer.fetch_batch(wanted, POLL_TIMEOUT_MS)
            if not records and ends is not None:
                ends = await ends_left(consumer, ends)
            if ends is None:
                _write(records, write, transfer)
            else:
                _write(_before(records, ends), write, transfer)
                _leave_later(consumer, records, ends)
            if not records:
                for topic in absences.due(loop.time(), consumer.missing_topics()):
                    complain(f"topic {topic} {ABSENCE}")
            if reminder.is_due(loop.time(), consumer.assignment()):
                named = options.regex or ", ".join(options.topics)
                complain(
                    f"still waiting for partitions of {named}: "
                    f"group {options.group} has no coordinator at the moment, or its other members "
                    "own all of them."
                )


class Absences:
    """Topics that do not exist, each of which is reported once until it exists again.

    A broker that has just started, or learns of a new topic, may not know a topic for a moment.
    """

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}
        self._reported: set[str] = set()

    def due(self, now_s: float, missing: Collection[str]) -> list[str]:
        """Return the topics to report now: missing for `ABSENCE_PATIENCE_S` and not reported."""
        self._since_s = {topic: self._since_s.get(topic, now_s) for topic in sorted(missing)}
        self._reported &= self._since_s.keys()
        found = [
            topic
            for topic, since_s in self._since_s.items()
            if topic not in self._reported and now_s - since_s >= ABSENCE_PATIENCE_S
        ]
        self._reported.update(found)
        return found


class Reminder:
    """Timer of the hint that no partition is assigned; it fires at most once."""

    def __init__(self, now_s: float) -> None:
        self._due_s: float | None = now_s + SILENT_WAIT_S

    def is_due(self, now_s: float, assignment: Sequence[TopicPartition]) -> bool:
        """Whether the hint is to be printed now.

        True once, when `SILENT_WAIT_S` have passed without any assignment.
        """
        if self._due_s is None:
            return False
        if assignment:
            self._due_s = None
            return False
        if now_s < self._due_s:
            return False
        self._due_s = None
        return True


def _is_anything_left(consumer: Consumer, ends: Mapping[TopicPartition, Offset]) -> bool:
    """Whether records before `ends` remain, or the consumer still waits for an assignment."""
    positions = {partition: consumer.position(partition) for partition in consumer.assignment()}
    return not positions or any(
        position is None or position < ends.get(partition, 0)
        for partition, position in positions.items()
    )


async def ends_left(
    consumer: Consumer, ends: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, Offset]:
    """Return `ends` without the offsets that no log has any longer.

    A log becomes shorter by an unclean election, or as the log of a new topic of the same name.

    Raises:
        UnknownTopicError: a topic was deleted.
    """
    now = await consumer.end_offsets(ends)
    return {partition: min(end, now[partition]) for partition, end in ends.items()}


def _wanted(max_records: int | None, record_count: int) -> int:
    if max_records is None:
        return BATCH_RECORDS
    return min(BATCH_RECORDS, max_records - record_count)


def _write(records: list[ConsumerRecord], write: WriteRecord, transfer: Transfer) -> None:
    sys.stdout.buffer.write(b"".join(map(write, records)))
    sys.stdout.buffer.flush()
    transfer.add(len(records), sum(map(record_size_bytes, records)))


def _before(
    records: list[ConsumerRecord], ends: Mapping[TopicPartition, Offset]
) -> list[ConsumerRecord]:
    return [
        record
        for record in records
        if record.offset < ends.get(TopicPartition(record.topic, record.partition), 0)
    ]


def _leave_later(
    consumer: Consumer, records: list[ConsumerRecord], ends: Mapping[TopicPartition, Offset]
) -> None:
    """Leave the records from `ends` on to the next reader of the group, and read no more of them.

    As processed records they would be committed, although they are not written.
    """
    later: dict[TopicPartition, int] = {}
    for record in records:
        partition = TopicPartition(record.topic, record.partition)
        if record.offset >= ends.get(partition, 0):
            later.setdefault(partition, record.offset)
    for partition in later.keys() & set(consumer.assignment()):
        consumer.seek(partition, later[partition])
        consumer.pause(partition)


async def _partitions(consumer: Consumer, options: ConsumeOptions) -> list[TopicPartition]:
    # A consumer waits for its topic to appear, but a mistyped name should fail at once.
    async with options.access.admin() as admin:
        described = await admin.describe_topics(await _topics(admin, options))
    found = []
    for topic in described.values():
        existing = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        wanted = existing
        if options.partitions is not None:
            numbers = sorted(set(options.partitions))
            wanted = [TopicPartition(topic.name, number) for number in numbers]
        if missing := set(wanted) - set(existing):
            raise CommandError(
                f"{min(missing)} does not exist: {topic.name} has {len(existing)} partitions, "
                "numbered from 0."
            )
        found += wanted
    # The consumer needs to know the topics before it is asked for their ends.
    for topic in described.values():
        await consumer.partitions_of(topic.name)
    return found


async def _topics(admin: Admin, options: ConsumeOptions) -> list[str]:
    if options.regex is None:
        return options.topics
    pattern = parse_pattern(options.regex)
    matching = [name for name in await admin.list_topics() if pattern.fullmatch(name)]
    # A group reads topics that are created later.
    if not matching and options.group is None:
        raise CommandError(f"no topic matches {options.regex!r}: see `ottla topics list`.")
    return matching


async def _seek(consumer: Consumer, partitions: list[TopicPartition], start: StartPoint) -> None:
    match start:
        case Beginning():
            await consumer.seek_to_beginning(*partitions)
        case End():
            await consumer.seek_to_end(*partitions)
        case AtOffset(offset):
            for partition, end in (await consumer.end_offsets(partitions)).items():
                if offset > end:
                    # The consumer would find the offset out of range and reset to the beginning.
                    complain(f"{partition} ends at {end}: reading starts there.")
                consumer.seek(partition, min(Offset(offset), end))
        case AtTime(timestamp_ms):
            for partition in partitions:
                await consumer.seek_to_timestamp(partition, timestamp_ms)
        case _:
            assert_never(start)
