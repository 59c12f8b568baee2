"""Reads records for searches and live tails (edge).

Each search and each tail has a consumer of its own without a group: it commits nothing. The number
of both, their time and the memory of their consumers are limited. A search keeps the beginnings of
the records that it has found.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from kafkawire.ids import TopicPartition
from kafkawire.sentinels import NO_OFFSET
from kafkawire.units import MIB
from ottla.client.admin.admin import Admin
from ottla.client.admin_model import OffsetSpec
from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import ConfigurationError
from ottla.console.records.found_record import FoundRecord, fitted, found_record
from ottla.console.records.query import RecordQuery, Start

MAX_READERS: Final = 8
"""Number of searches and tails at the same time."""
MAX_SCANNED: Final = 200_000
"""Number of records that one search reads at most."""
SEARCH_TIMEOUT_S: Final = 10.0
BATCH_RECORDS: Final = 1_000
WINDOW_GROWTH: Final = 4
"""Factor between the windows of a search for the newest records."""
POLL_MS: Final = 500
"""Longest wait for records, after which a search looks again whether it has reached the ends."""
PREFETCH_BYTES: Final = 4 * MIB
CLOSE_TIMEOUT_MS: Final = 1_000


class BusyError(Exception):
    """`MAX_READERS` searches and tails are running."""


@dataclass(slots=True)
class SearchResult:
    """The matching records, in the order of their time."""

    records: list[FoundRecord] = field(default_factory=list)
    scanned: int = 0
    is_complete: bool = True
    """Whether no record was left unread within the limits of the search."""
    next_offset: int | None = None
    """The offset at which a search in one partition can continue."""


class RecordReaders:
    """Opens consumers, at most `MAX_READERS` at the same time."""

    def __init__(self, connect: Callable[[], Consumer]) -> None:
        self._connect = connect
        self._running = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumer]:
        """Provide a started consumer.

        Raises:
            BusyError: too many are open.
            ConfigurationError: a file of the TLS options cannot be read.
        """
        if self._running >= MAX_READERS:
            raise BusyError(f"{MAX_READERS} searches and tails are running: close one of them")
        # Before it counts: the files of a certificate may be missing, or change at this moment.
        consumer = self._connect()
        self._running += 1
        try:
            await consumer.start()
            yield consumer
        finally:
            self._running -= 1
            await consumer.close(CLOSE_TIMEOUT_MS)

    async def search(self, admin: Admin, query: RecordQuery) -> SearchResult:
        """Return the records that match.

        Raises:
            BusyError: too many searches and tails are running.
            OttlaError: there is no such topic or partition, or the cluster does not answer.
        """
        result = SearchResult()
        async with self.open() as consumer:
            partitions = await partitions_of(consumer, query)
            starts = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
            ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
            firsts: dict[TopicPartition, int] = {each: starts[each].offset for each in partitions}
            left: dict[TopicPartition, int] = {each: ends[each].offset for each in partitions}
            consumer.assign(partitions)
            if query.start is Start.TIME:
                # At once: a topic may have thousands of partitions.
                found = await admin.list_offsets(dict.fromkeys(partitions, query.at))
                for each in partitions:
                    offset = found[each].offset
                    consumer.seek(each, left[each] if offset == NO_OFFSET else offset)
            elif query.start is not Start.NEWEST:
                for each in partitions:
                    # Without an offset, `at` is 0.
                    consumer.seek(each, max(firsts[each], query.at))
            try:
                async with asyncio.timeout(SEARCH_TIMEOUT_S):
                    if query.start is Start.NEWEST:
                        await _scan_backwards(consumer, query, firsts, left, result)
                    else:
                        await _scan(consumer, query, left, result)
            except TimeoutError:
                result.is_complete = False
            if len(partitions) == 1 and not result.is_complete and query.start is not Start.NEWEST:
                is_full = len(result.records) == query.limit
                result.next_offset = (
                    result.records[-1].offset + 1 if is_full else consumer.position(partitions[0])
                )
        result.records.sort(key=_by_time)
        if query.start is Start.NEWEST:
            result.records = result.records[-query.limit :][::-1]
        return result


async def _scan_backwards(
    consumer: Consumer,
    query: RecordQuery,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    result: SearchResult,
) -> None:
    """Read windows before the ends, until enough records of each partition match.

    The windows grow, because compaction and transactions leave offsets without records.
    """
    read_from, depth = dict(ends), query.limit
    matches: Counter[TopicPartition] = Counter()
    while deeper := {
        each: offset
        for each, offset in read_from.items()
        if offset > firsts[each] and matches[each] < query.limit
    }:
        depth = min(depth, (MAX_SCANNED - result.scanned) // len(deeper))
        if depth == 0:
            result.is_complete = False
            return
        consumer.assign(deeper)
        for each, end in deeper.items():
            read_from[each] = max(firsts[each], end - depth)
            consumer.seek(each, read_from[each])
        matches += await _scan(consumer, query, deeper, result)
        if not result.is_complete:
            return
        depth *= WINDOW_GROWTH


async def _scan(
    consumer: Consumer,
    query: RecordQuery,
    left: Mapping[TopicPartition, int],
    result: SearchResult,
) -> Counter[TopicPartition]:
    """Read up to the ends in `left`, or until the limits of the search; count the matches."""
    matches: Counter[TopicPartition] = Counter()
    while any((consumer.position(each) or 0) < end for each, end in left.items()):
        room = MAX_SCANNED - result.scanned
        if query.start is not Start.NEWEST:
            wanted = query.limit - len(result.records)
            room = min(room, wanted) if not query.is_filtered else room * (wanted > 0)
        if room <= 0:
            result.is_complete = False
            return matches
        # Empty while a broker is slow, and where the log has no records: then positions move on.
        batch = await consumer.fetch_batch(min(room, BATCH_RECORDS), POLL_MS)
        read = [
            record
            for record in batch
            if record.offset < left[TopicPartition(record.topic, record.partition)]
        ]
        result.scanned += len(read)
        found = [record for record in read if query.matches(record)]
        matches.update(TopicPartition(each.topic, each.partition) for each in found)
        if query.start is not Start.NEWEST and len(found) > query.limit - len(result.records):
            del found[query.limit - len(result.records) :]
            result.is_complete = False
        result.records += map(found_record, found)
        if query.start is Start.NEWEST and len(result.records) > 2 * query.limit:
            result.records.sort(key=_by_time)
            del result.records[: -query.limit]
        if found:
            result.records = fitted(result.records)
        if not result.is_complete:
            return matches
        # Large records would otherwise stay in memory until the next ones have arrived.
        del batch, read, found
        # Matching is work of the processor: other pages get their turn.
        await asyncio.sleep(0)
    return matches


async def partitions_of(consumer: Consumer, query: RecordQuery) -> list[TopicPartition]:
    """Return the partitions to read.

    Raises:
        OttlaError: there is no such topic or partition.
    """
    partitions = await consumer.partitions_of(query.topic)
    if query.partition is None:
        return partitions
    wanted = TopicPartition(query.topic, query.partition)
    if wanted not in partitions:
        raise ConfigurationError(f"topic {query.topic} has no partition {query.partition}")
    return [wanted]


def _by_time(record: FoundRecord) -> tuple[int, int, int]:
    return record.timestamp_ms, record.partition, record.offset
