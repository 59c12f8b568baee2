"""Searches of the console, with a consumer in memory."""

import tracemalloc
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.records_header import TimestampType
from kafkawire.sentinels import NO_OFFSET
from kafkawire.units import KIB, MIB
from ottla import Admin, Consumer
from ottla.client.admin_model import OffsetSpec
from ottla.client.errors import ConfigurationError
from ottla.client.offset import OffsetAndTimestamp
from ottla.client.record import ConsumerRecord
from ottla.console.records import reader
from ottla.console.records.found_record import MAX_FOUND_BYTES
from ottla.console.records.payload import Form
from ottla.console.records.query import RecordQuery, Start
from ottla.console.records.reader import MAX_READERS, RecordReaders, SearchResult
from ottla.console.web.record_routes import record_rows

ORDERS = TopicPartition("orders", 0)


def record(offset: int) -> ConsumerRecord:
    return ConsumerRecord(
        topic="orders",
        partition=0,
        offset=Offset(offset),
        timestamp_ms=offset,
        key=b"key",
        value=b"value",
        headers=(),
        timestamp_type=TimestampType.CREATE_TIME,
        leader_epoch=LeaderEpoch(0),
    )


class SlowConsumer:
    """Returns no record at first, as from a broker that is slow to answer; then `offsets`."""

    def __init__(self, *offsets: int) -> None:
        self._answers: list[Sequence[int]] = [(), offsets]
        self._position = 0

    async def start(self) -> None:
        pass

    async def close(self, _timeout_ms: int) -> None:
        pass

    async def partitions_of(self, _topic: str) -> list[TopicPartition]:
        return [ORDERS]

    def assign(self, _partitions: Sequence[TopicPartition]) -> None:
        pass

    def seek(self, _partition: TopicPartition, offset: int) -> None:
        self._position = offset

    def position(self, _partition: TopicPartition) -> int:
        return self._position

    async def fetch_batch(self, _count: int, _timeout_ms: int) -> list[ConsumerRecord]:
        answer = self._answers.pop(0)
        self._position = max((offset + 1 for offset in answer), default=self._position)
        return [record(offset) for offset in answer]


class Offsets:
    """The admin client of a log from offset 0 to `end`."""

    def __init__(self, end: int) -> None:
        self._end = end

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return {
            each: OffsetAndTimestamp(Offset(self._offset_at(time)), -1, LeaderEpoch(0))
            for each, time in wanted.items()
        }

    def _offset_at(self, timestamp_ms: int) -> int:
        """Return the offset of a record at this time: the timestamps are the offsets."""
        if timestamp_ms == OffsetSpec.EARLIEST:
            return 0
        if timestamp_ms == OffsetSpec.LATEST:
            return self._end
        return timestamp_ms if timestamp_ms < self._end else NO_OFFSET


async def test_a_search_waits_for_a_slow_broker() -> None:
    readers = RecordReaders(lambda: cast(Consumer, SlowConsumer(0, 1, 2)))
    result = await readers.search(cast(Admin, Offsets(3)), RecordQuery(topic="orders", key=b"k"))
    assert [each.offset for each in result.records] == [2, 1, 0]
    assert (result.scanned, result.is_complete) == (3, True)


class LogConsumer(SlowConsumer):
    """Has the records at `offsets`; the other offsets below `end` have none."""

    def __init__(self, offsets: Sequence[int], end: int) -> None:
        super().__init__()
        self._offsets = offsets
        self._end = end

    async def fetch_batch(self, count: int, _timeout_ms: int) -> list[ConsumerRecord]:
        slot = bisect_left(self._offsets, self._position)
        answer = self._offsets[slot : slot + count]
        self._position = answer[-1] + 1 if answer else self._end
        return [record(offset) for offset in answer]


async def newest(offsets: Sequence[int], end: int, query: RecordQuery) -> SearchResult:
    readers = RecordReaders(lambda: cast(Consumer, LogConsumer(offsets, end)))
    return await readers.search(cast(Admin, Offsets(end)), query)


async def test_the_newest_records_are_found_before_offsets_without_records() -> None:
    """Compaction and transactions leave such offsets."""
    offsets = [*range(0, 900, 2), 950]
    result = await newest(offsets, 1_000, RecordQuery(topic="orders"))
    assert [each.offset for each in result.records] == offsets[:-51:-1]
    assert result.is_complete


async def test_a_search_of_the_newest_records_ends_at_its_limit_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "MAX_SCANNED", 500)
    query = RecordQuery(topic="orders", key=b"absent")
    for end, is_complete in ((501, False), (500, True)):
        result = await newest(range(end), end, query)
        assert (result.scanned, result.is_complete) == (500, is_complete)


async def test_consumers_that_cannot_be_made_do_not_count_as_running() -> None:
    """A certificate file may be missing while it is replaced."""
    failures = [ConfigurationError("ssl_certfile cannot be read")] * (MAX_READERS + 1)

    def connect() -> Consumer:
        if failures:
            raise failures.pop()
        return cast(Consumer, LogConsumer([0], 1))

    readers = RecordReaders(connect)
    query, log = RecordQuery(topic="orders"), cast(Admin, Offsets(1))
    for _ in range(MAX_READERS + 1):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            await readers.search(log, query)
    assert [each.offset for each in (await readers.search(log, query)).records] == [0]


@pytest.mark.parametrize(("at", "offsets"), [(7, [7, 8, 9]), (10, [])])
async def test_a_search_from_a_time_begins_at_the_first_record_of_that_time(
    at: int, offsets: list[int]
) -> None:
    readers = RecordReaders(lambda: cast(Consumer, LogConsumer(range(10), 10)))
    query = RecordQuery(topic="orders", start=Start.TIME, at=at)
    result = await readers.search(cast(Admin, Offsets(10)), query)
    assert [each.offset for each in result.records] == offsets
    assert result.is_complete


class LargeRecords(LogConsumer):
    """A log of records of 1 MiB, of which a batch has few."""

    def __init__(self, end: int) -> None:
        super().__init__(range(end), end)

    async def fetch_batch(self, count: int, _timeout_ms: int) -> list[ConsumerRecord]:
        batch = await super().fetch_batch(min(count, 4), _timeout_ms)
        headers = (("header", bytes(64 * KIB)),)
        return [each._replace(value=bytes(MIB), headers=headers) for each in batch]


@pytest.mark.parametrize("start", [Start.NEWEST, Start.BEGINNING])
async def test_a_search_keeps_the_beginnings_of_large_records(start: Start) -> None:
    readers = RecordReaders(lambda: cast(Consumer, LargeRecords(200)))
    query = RecordQuery(topic="orders", start=start, limit=200)
    tracemalloc.start()
    try:
        result = await readers.search(cast(Admin, Offsets(200)), query)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(result.records) == 200
    assert peak_bytes < 3 * MAX_FOUND_BYTES
    for row in record_rows(result.records, Form.AUTO):
        assert (row.value.size_bytes, row.value.is_cut) == (MIB, True)
        assert row.record.header_count == 1
