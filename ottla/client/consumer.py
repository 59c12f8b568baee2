"""The consumer that users hold. Composition of fetcher, buffer and cluster."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Self

from kafkawire.ids import Offset, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.config import (
    MIB,
    ClientConfig,
    ConsumerConfig,
    IsolationLevel,
    ResetPolicy,
    parse_bootstrap,
)
from ottla.client.errors import ClientClosedError, NotAssignedError
from ottla.client.fetch_buffer import Cursor, FetchBuffer
from ottla.client.fetcher import RESET_TIMESTAMPS, Fetcher
from ottla.client.offset_lookup import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetAndTimestamp,
    list_offsets,
)
from ottla.client.partition_state import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, PartitionState
from ottla.client.record import ConsumerRecord

CURSORS_PER_TURN: Final = 2
"""After reading that many without waiting, other tasks get a turn, and the next answer is received:
else the broker would wait until all that it sent before is read."""


class Consumer:
    """Reads records of the partitions that it is assigned. Use with `async with`.

    Records of one partition come in the order of their offsets; partitions take turns. While
    records are handed over the next ones are fetched, up to `prefetch_max_bytes`.
    Belongs to one event loop; one task at a time may read.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        auto_offset_reset: ResetPolicy = "latest",
        isolation_level: IsolationLevel = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 * MIB,
        max_partition_fetch_bytes: int = MIB,
        prefetch_max_bytes: int = 64 * MIB,
        check_crcs: bool = True,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        client_id: str = "ottla",
    ) -> None:
        """Take the settings; nothing is connected yet.

        `auto_offset_reset` says where to begin in a partition without a position, and where to
        go on when the position is not in the log any more. With "latest", records written to a
        new partition before this consumer learned of it are not read.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        self._client_config = ClientConfig(
            bootstrap=parse_bootstrap(bootstrap_servers),
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
        )
        self._config = ConsumerConfig(
            auto_offset_reset=auto_offset_reset,
            isolation_level=isolation_level,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            prefetch_max_bytes=prefetch_max_bytes,
            check_crcs=check_crcs,
        )
        self._buffer = FetchBuffer(self._config)
        self._states: dict[TopicPartition, PartitionState] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._cluster: Cluster | None = None
        self._fetcher: Fetcher
        self._next_turn = CURSORS_PER_TURN
        self._is_closed = False

    async def start(self) -> None:
        """Connect; `async with` does this.

        Raises:
            NoBrokerAvailableError: none of the bootstrap servers can be reached.
        """
        if self._cluster is not None:
            raise ClientClosedError("a consumer starts once: make a new one")
        self._cluster = cluster = Cluster(self._client_config, allow_auto_topic_creation=False)
        self._fetcher = Fetcher(cluster, self._config, self._buffer, self._on_arrival)
        await cluster.start()
        cluster.on_change = self._fetcher.wake
        self._update_fetcher()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop fetching and disconnect. Iteration that is under way ends."""
        self._is_closed = True
        self._on_arrival()
        if self._cluster is None:
            return
        try:
            await self._fetcher.stop()
        finally:
            await self._cluster.close()

    # Assignment and positions

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on; those that are kept keep their position."""
        wanted = list(topic_partitions)
        for topic_partition in self._states.keys() - set(wanted):
            state = self._states.pop(topic_partition)
            self._buffer.drop(state)
            state.abandon()
        for topic_partition in wanted:
            if topic_partition not in self._states:
                self._states[topic_partition] = self._new_state(topic_partition)
        self._update_fetcher()

    async def assign_topics(self, *topics: str) -> list[TopicPartition]:
        """Read all partitions of `topics` from now on, and return them.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        found = []
        for topic in topics:
            held = await self._started().topic(topic, self._timeout_s)
            found += [TopicPartition(topic, partition) for partition in sorted(held.partitions)]
        self.assign(found)
        return found

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return list(self._states)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Go on at `offset`; one that is not in the log is met by the reset policy.

        Raises:
            NotAssignedError: the partition is not assigned.
            ValueError: `offset` is negative.
        """
        if offset < 0:
            raise ValueError(f"an offset is 0 or more, got {offset}; use seek_to_end(...)")
        state = self._state(topic_partition)
        self._buffer.drop(state)
        state.jump(Offset(offset))
        self._wake_fetcher()

    async def seek_to_beginning(self, *topic_partitions: TopicPartition) -> None:
        """Go on at the start of the log, in these partitions or in all."""
        await self._seek_to(EARLIEST_TIMESTAMP, topic_partitions)

    async def seek_to_end(self, *topic_partitions: TopicPartition) -> None:
        """Go on at the end of the log, in these partitions or in all."""
        await self._seek_to(LATEST_TIMESTAMP, topic_partitions)

    async def seek_to_timestamp(self, topic_partition: TopicPartition, timestamp_ms: int) -> None:
        """Go on at the first record that is as late as `timestamp_ms`, or at the end."""
        self._state(topic_partition)
        found = (await self.offsets_for_times({topic_partition: timestamp_ms}))[topic_partition]
        if found is None:
            await self._seek_to(LATEST_TIMESTAMP, (topic_partition,))
        else:
            self.seek(topic_partition, found.offset)

    def position(self, topic_partition: TopicPartition) -> Offset | None:
        """Return the offset of the next record; None while that is not known yet."""
        return self._buffer.position(self._state(topic_partition))

    def pause(self, *topic_partitions: TopicPartition) -> None:
        """Hand over nothing of these partitions until `resume`; their position stays."""
        for state in [self._state(each) for each in topic_partitions]:
            self._buffer.pause(state)

    def resume(self, *topic_partitions: TopicPartition) -> None:
        """Hand over records of these partitions again."""
        for state in [self._state(each) for each in topic_partitions]:
            self._buffer.resume(state)
        self._on_arrival()
        self._wake_fetcher()

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return [each for each, state in self._states.items() if state.is_paused]

    # Reading

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Hand over records one by one, waiting for new ones, until the consumer is closed.

        Leaving the loop loses nothing: whoever reads next goes on behind the last record.

        Raises:
            OffsetOutOfRangeError, CorruptRecordsError: the position cannot be read.
            BrokerError: a broker refuses; reading again tries again.
        """
        while (cursor := await self._wait_for_cursor()) is not None:
            # One loop step per record and nothing else: the position is asked of the iterator.
            for record in cursor.iterator:
                yield record

    async def fetch_batch(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ConsumerRecord]:
        """Return up to `max_records` records: those at hand, else those that come first.

        After `timeout_ms` without any it returns an empty list; None waits for ever.

        Raises:
            ClientClosedError: the consumer is closed.
            OttlaError: as iteration.
        """
        if max_records < 1:
            raise ValueError(f"max_records must be at least 1, got {max_records}")
        records: list[ConsumerRecord] = []
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                cursor = await self._wait_for_cursor()
        except TimeoutError:
            return records
        if cursor is None:
            raise ClientClosedError("the consumer is closed: make a new one")
        while cursor is not None:
            records += islice(cursor.iterator, max_records - len(records))
            if len(records) == max_records:
                break
            # Quietly: an error must not swallow what was collected; the next read raises it.
            cursor = self._buffer.cursor(quietly=True)
        return records

    async def fetch_by_partition(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Like `fetch_batch`, sorted by partition."""
        sorted_records: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in await self.fetch_batch(max_records, timeout_ms):
            key = TopicPartition(record.topic, record.partition)
            sorted_records.setdefault(key, []).append(record)
        return sorted_records

    # Offsets

    async def beginning_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Return the first offset in each log."""
        found = await self._list_offsets(dict.fromkeys(topic_partitions, EARLIEST_TIMESTAMP))
        return {each: place.offset for each, place in found.items()}

    async def end_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Return the offset behind the last record that may be read, for each log."""
        found = await self._list_offsets(dict.fromkeys(topic_partitions, LATEST_TIMESTAMP))
        return {each: place.offset for each, place in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record that is as late as its timestamp; None where there is none."""
        if any(timestamp < 0 for timestamp in timestamps_ms.values()):
            raise ValueError("a timestamp is 0 or more; use beginning_offsets or end_offsets")
        found = await self._list_offsets(timestamps_ms)
        return {each: place if place.offset >= 0 else None for each, place in found.items()}

    # Inside

    async def _wait_for_cursor(self) -> Cursor | None:
        """Return a cursor with records, when there is one; None when the consumer is closed."""
        while not self._is_closed:
            self._started()
            cursor = self._buffer.cursor()
            if self._buffer.has_room:
                self._buffer.has_room = False
                self._fetcher.run()
            if self._buffer.cursor_count >= self._next_turn:
                self._next_turn = self._buffer.cursor_count + CURSORS_PER_TURN
                await asyncio.sleep(0)
            elif cursor is not None:
                return cursor
            else:
                await self._wait_for_arrival()
        return None

    async def _wait_for_arrival(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _on_arrival(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _seek_to(self, timestamp: int, topic_partitions: Sequence[TopicPartition]) -> None:
        states = [self._state(each) for each in topic_partitions or self._states]
        found = await self._list_offsets({state.topic_partition: timestamp for state in states})
        for topic_partition, place in found.items():
            if topic_partition in self._states:
                self.seek(topic_partition, place.offset)

    async def _list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        is_committed = self._config.isolation_level == "read_committed"
        return await list_offsets(
            self._started(),
            wanted,
            isolation_level=READ_COMMITTED if is_committed else READ_UNCOMMITTED,
            timeout_s=self._timeout_s,
        )

    def _new_state(self, topic_partition: TopicPartition) -> PartitionState:
        state = PartitionState(TopicPartition(*topic_partition))
        state.reset_to = RESET_TIMESTAMPS[self._config.auto_offset_reset]
        return state

    def _state(self, topic_partition: TopicPartition) -> PartitionState:
        state = self._states.get(topic_partition)
        if state is None:
            raise NotAssignedError(TopicPartition(*topic_partition))
        return state

    def _update_fetcher(self) -> None:
        if self._cluster is not None:
            self._cluster.keep_topics({each.topic for each in self._states})
            self._fetcher.assign(self._states.values())

    def _wake_fetcher(self) -> None:
        if self._cluster is not None:
            self._fetcher.wake()

    @property
    def _timeout_s(self) -> float:
        return self._client_config.request_timeout_ms / 1000

    def _started(self) -> Cluster:
        if self._cluster is None or self._is_closed:
            raise ClientClosedError(
                "the consumer is not running: use `async with Consumer(...)`, and read before its "
                "end"
            )
        return self._cluster
