"""One stream of records per partition, for tasks that process partitions side by side (edge).

The task that iterates over `PartitionStreams` reads for all streams, and deals the records out. A
partition whose stream is full is paused, so that a slow task holds up no other one.
Invariant: a stream holds records of one assignment of its partition. It ends when the partition is
taken away, and the records in it are dropped. If the iteration over the streams ends earlier, as
by an error of one partition, the next read returns the records that no stream has handed over.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Final, Protocol

from kafkawire.ids import Offset, TopicPartition
from ottla.client.errors import ClientClosedError, NotAssignedError
from ottla.client.record import ConsumerRecord

FULL_RECORDS: Final = 1_000
"""Number of waiting records from which on a partition is paused."""
RESUME_RECORDS: Final = 250
"""Number of waiting records down to which a paused partition is resumed."""
POLL_MS: Final = 100
"""Interval at which the end of an assignment is noticed while nothing arrives."""


class Source(Protocol):
    """The methods of a consumer that streams need."""

    async def fetch_by_partition(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition."""

    def pause(self, *topic_partitions: TopicPartition) -> None:
        """Suspend reading of these partitions."""

    def resume(self, *topic_partitions: TopicPartition) -> None:
        """Resume reading of these partitions."""

    def position(self, topic_partition: TopicPartition) -> Offset | None:
        """Return the offset of the next record to read; None while it is not known yet."""

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continue reading a partition at `offset`."""

    def assigned_states(self) -> Mapping[TopicPartition, object]:
        """Return an object for each assigned partition: another one after each assignment."""


class PartitionStream:
    """The records of one partition, in order: `async for record in stream`."""

    def __init__(self, source: Source, topic_partition: TopicPartition, state: object) -> None:
        self.topic_partition = topic_partition
        self.state = state
        """Identifies the assignment of the partition."""
        self._source = source
        self._records: deque[ConsumerRecord] = deque()
        self._changed = asyncio.Event()
        self._is_paused = False
        self._has_ended = False

    def put(self, records: list[ConsumerRecord]) -> None:
        """Append records, and pause the partition if too many wait."""
        self._records.extend(records)
        self._changed.set()
        if not self._is_paused and len(self._records) >= FULL_RECORDS:
            self._is_paused = True
            self._source.pause(self.topic_partition)

    @property
    def next_offset(self) -> Offset | None:
        """The offset of the first waiting record, None without one."""
        return self._records[0].offset if self._records else None

    def give_back(self) -> None:
        """Let the consumer read the waiting records again, since the assignment continues."""
        position, waiting = self._source.position(self.topic_partition), self.next_offset
        # A position in a topic that was created again may be below the records of the old one.
        if position is not None and waiting is not None and waiting < position:
            self._source.seek(self.topic_partition, waiting)
        if self._is_paused:
            self._is_paused = False
            self._source.resume(self.topic_partition)

    def end(self) -> None:
        """Drop the waiting records, and end the iteration."""
        self._has_ended = True
        self._records.clear()
        self._changed.set()

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while not self._records:
            if self._has_ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        record = self._records.popleft()
        if self._is_paused and len(self._records) <= RESUME_RECORDS:
            self._is_paused = False
            # If it was taken away, the stream ends with the next batch.
            with suppress(NotAssignedError):
                self._source.resume(self.topic_partition)
        return record


class PartitionStreams:
    """Yields a stream for each assignment of a partition, once its first record has arrived."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._streams: dict[TopicPartition, PartitionStream] = {}
        self._iteration = 0
        self._is_reading = False

    async def __aiter__(self) -> AsyncIterator[PartitionStream]:
        self.leave()
        self._iteration += 1
        iteration = self._iteration
        try:
            while True:
                try:
                    found = await self._fetch()
                    states = self._source.assigned_states()
                except ClientClosedError:
                    return
                self._end_others(states)
                # Dealt out before the first `yield`, at which the iteration may end.
                for stream in self._deal_out(found, states):
                    yield stream
        finally:
            # The event loop closes an iteration that was left by `break` some turns later.
            if iteration == self._iteration:
                self.leave()

    def leave(self) -> None:
        """End the streams, unless an iteration reads for them at this moment.

        The next read returns the records that they have not handed over.
        """
        if self._is_reading:
            return
        self._end_others(self._source.assigned_states())
        for stream in self._streams.values():
            stream.give_back()
        self._end_others({})

    def waiting(self) -> dict[TopicPartition, Offset]:
        """Return the offset of the first record that waits in a stream, per partition."""
        states = self._source.assigned_states()
        return {
            partition: offset
            for partition, stream in self._streams.items()
            if states.get(partition) is stream.state and (offset := stream.next_offset) is not None
        }

    async def _fetch(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        self._is_reading = True
        try:
            return await self._source.fetch_by_partition(timeout_ms=POLL_MS)
        finally:
            self._is_reading = False

    def _deal_out(
        self,
        found: Mapping[TopicPartition, list[ConsumerRecord]],
        states: Mapping[TopicPartition, object],
    ) -> list[PartitionStream]:
        """Append records to the streams of their partitions; return the streams that are new."""
        new = []
        for partition, records in found.items():
            if partition not in states:
                continue
            stream = self._streams.get(partition)
            if stream is None:
                stream = PartitionStream(self._source, partition, states[partition])
                self._streams[partition] = stream
                new.append(stream)
            stream.put(records)
        return new

    def _end_others(self, states: Mapping[TopicPartition, object]) -> None:
        """End the streams of assignments that have ended."""
        for partition, stream in list(self._streams.items()):
            if states.get(partition) is not stream.state:
                del self._streams[partition]
                stream.end()
