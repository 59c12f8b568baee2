"""The public consumer (composition).

It combines reader, fetcher, buffer, cluster and group.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final, Self, Unpack

from kafkawire.errors import ErrorCode
from kafkawire.ids import Offset, TopicPartition
from kafkawire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_OFFSET
from kafkawire.units import MIB
from ottla.client.argument import (
    require_duration,
    require_names,
    require_partitions,
    require_topic,
    require_whole,
)
from ottla.client.background import Closing
from ottla.client.client_config import (
    ClientConfig,
    ConsumerConfig,
    IsolationLevel,
    ResetPolicy,
    parse_bootstrap,
)
from ottla.client.client_metrics import Health, consumer_metrics
from ottla.client.cluster_metadata import refusal
from ottla.client.consumer.consumer_group import ConsumerGroup
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.group.group_config import (
    DEFAULT_ASSIGNORS,
    AssignorName,
    GroupConfig,
    parse_assignors,
)
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.group.rebalance_listener import OnPartitions, RebalanceListener
from ottla.client.consumer.group.topic_pattern import parse_pattern
from ottla.client.consumer.log_offsets import LogOffsets
from ottla.client.consumer.partition_streams import PartitionStreams
from ottla.client.consumer.positions import RESET_TIMESTAMPS
from ottla.client.consumer.reading import Reading
from ottla.client.consumer.record_handover import RecordHandover
from ottla.client.consumer.record_hooks import make_hooks
from ottla.client.errors import BrokerError, ClientClosedError, ConfigurationError, NotInGroupError
from ottla.client.interceptor import ConsumerInterceptor
from ottla.client.network.cluster import Cluster
from ottla.client.offset import (
    CommittedOffset,
    GroupMetadata,
    OffsetAndTimestamp,
    parse_commit,
    parse_offset,
)
from ottla.client.record import ConsumerRecord
from ottla.client.security import SecurityOptions, security_of
from ottla.client.serialization import Deserializer

DEFAULT_CLOSE_TIMEOUT_MS: Final = 30_000
"""Same as in Kafka's Java consumer."""


class Consumer:
    """Reads records, alone or as a member of a consumer group.

        async with Consumer("localhost:9092", group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            async for record in consumer:
                print(record.partition, record.offset, record.value)

    Without a group, a consumer reads the partitions given to `assign` or `assign_topics`. A member
    of a group (`group_id`) chooses topics with `subscribe`; the group divides their partitions
    among its members and stores committed offsets.

    Order: records of one partition arrive in the order of their offsets, each once between two
    seeks; partitions take turns. Offsets may have gaps, left by compaction and transactions.

    Delivery in a group: a record counts as processed once the reader requests the next one. Only
    processed records are committed automatically, and a partition moves to another member only
    after its records in hand were processed. So no record is lost when a member crashes, and none
    is read twice when it leaves in order.

    Memory: while the application handles records, the next ones are fetched, up to
    `prefetch_max_bytes`.

    An instance belongs to one event loop, and only one task at a time may read. Every method
    that needs the cluster raises ClientClosedError before `start` and after `close`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        assignors: Sequence[AssignorName] = DEFAULT_ASSIGNORS,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        auto_offset_reset: ResetPolicy = "latest",
        isolation_level: IsolationLevel = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 * MIB,
        max_partition_fetch_bytes: int = MIB,
        prefetch_max_bytes: int = 64 * MIB,
        check_crcs: bool = True,
        client_rack: str = "",
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        client_id: str = "ottla",
        **security: Unpack[SecurityOptions],
    ) -> None:
        """Configure the consumer; `start` or `async with` connects it.

        Args:
            bootstrap_servers: Addresses to find the cluster with: "host:port,host:port" or a
                sequence of "host:port". The port defaults to 9092.
            group_id: Name of the consumer group; without it there is no group.
            group_instance_id: Name of a static member: its partitions stay reserved during a
                restart, for up to `session_timeout_ms` (KIP-345).
            assignors: Assignors in order of preference; the group uses one that all members
                support. With "cooperative-sticky" alone, members keep reading the partitions
                that they keep during a rebalance.
            enable_auto_commit: Commit processed records in the background, before a rebalance
                and on close.
            auto_commit_interval_ms: Interval of these background commits.
            session_timeout_ms: Time without a heartbeat after which the coordinator removes
                this member from the group.
            heartbeat_interval_ms: Interval of heartbeats, usually a third of the session timeout.
            max_poll_interval_ms: Time without a read after which this member leaves the group.
                The next read makes it join again.
            auto_offset_reset: Start of a partition that has no position, or whose position is
                not in the log: "earliest", "latest", or "none" to raise OffsetOutOfRangeError.
                It also decides once the metadata shows that the topic of a position was deleted
                and created again.
                With "latest", records that were written to a new partition before this consumer
                discovered it are skipped.
            isolation_level: "read_committed" omits records of aborted and open transactions.
            fetch_min_bytes: Amount of data for which a broker delays its response.
            fetch_max_wait_ms: Limit of that delay.
            fetch_max_bytes: Limit of one fetch response.
            max_partition_fetch_bytes: Limit per partition in a fetch response. A larger batch is
                still returned.
            prefetch_max_bytes: Limit of all data that is fetched ahead.
            check_crcs: Verify the checksum of each batch.
            client_rack: Rack of this client: if the brokers select replicas by rack, it reads from
                an in-sync replica of the same rack (KIP-392).
            key_deserializer: Turns the bytes of keys into values: a plain or async function of
                bytes, or an object with `deserialize(topic, data)`; see
                `ottla.client.serialization`.
            value_deserializer: The same for values.
            interceptors: See every record before it is handed over, and every commit.
            request_timeout_ms: Time limit of one request.
            retry_backoff_ms: Delay before the first retry. It doubles with each further retry.
            retry_backoff_max_ms: Upper limit of that delay.
            metadata_max_age_ms: Interval at which metadata is refreshed even without errors; new
                partitions are discovered then.
            client_id: Name of this client in the logs and quotas of the brokers.
            **security: TLS and authentication, under the names of aiokafka; see
                `ottla.client.security.SecurityOptions`.

        Raises:
            ConfigurationError: a setting is out of range; the message has its value and limits.
        """
        self._client_config = ClientConfig(
            bootstrap=parse_bootstrap(bootstrap_servers),
            client_id=client_id,
            security=security_of(**security),
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
            client_rack=client_rack,
        )
        if group_id is None and group_instance_id is not None:
            raise ConfigurationError("group_instance_id is for members of a group: set group_id")
        self._group_config = (
            None
            if group_id is None
            else GroupConfig(
                group_id=group_id,
                group_instance_id=group_instance_id,
                assignors=parse_assignors(assignors),
                enable_auto_commit=enable_auto_commit,
                auto_commit_interval_ms=auto_commit_interval_ms,
                session_timeout_ms=session_timeout_ms,
                heartbeat_interval_ms=heartbeat_interval_ms,
                max_poll_interval_ms=max_poll_interval_ms,
            )
        )
        self._buffer = FetchBuffer(self._config)
        self._hooks = make_hooks(key_deserializer, value_deserializer, interceptors)
        self._reader = RecordHandover(self._buffer, self._hooks)
        reset_to = RESET_TIMESTAMPS[auto_offset_reset]
        self._reading = Reading(self._buffer, reset_to, self._reader.wake)
        self._cluster: Cluster | None = None
        self._group: ConsumerGroup | None = None
        self._fetcher: Fetcher
        self._gate: ReadGate
        self._streams: PartitionStreams | None = None
        self._reported_refresh = 0
        self._is_closed = False
        self._closing = Closing()
        self._has_ended = False

    async def start(self) -> None:
        """Connect to the cluster. `async with` calls this.

        Raises:
            NoBrokerAvailableError: no bootstrap server can be reached; check the addresses.
            ClientClosedError: the consumer was started or closed before; create a new one.
        """
        if self._cluster is not None or self._is_closed:
            raise ClientClosedError("a consumer starts once: make a new one")
        self._cluster = cluster = Cluster(self._client_config, allow_auto_topic_creation=False)
        self._gate = ReadGate(asyncio.get_running_loop(), self._buffer.interrupt)
        self._gate.on_open = self._reader.wake
        self._group = group = self._make_group(cluster)
        committed = None if group is None else group.store.committed_once
        self._fetcher = Fetcher(cluster, self._config, self._buffer, self._reader.wake, committed)
        self._reader.begin(self._gate, self._fetcher.run, group)
        await cluster.start()
        if self._is_closed:
            raise ClientClosedError("the consumer was closed while it started")
        cluster.on_change = self._on_change
        self._reading.begin(cluster, self._fetcher)
        if group is not None:
            group.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A body that raised did not process the records that it had in hand.
        await self._close(is_processed=kind is None)

    async def close(self, timeout_ms: float = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """Commit, leave the group, stop fetching and disconnect. `async with` calls this.

        A running `async for` over the consumer ends. All records that were handed over count as
        processed and are committed, unless `enable_auto_commit` is off or the body of
        `async with` raised. While another task closes the consumer, this waits for its end.

        After `timeout_ms` this waits neither for brokers nor for the callbacks of `subscribe`.
        Records not committed by then are read again, and the group reassigns the partitions only
        after `session_timeout_ms` if the request to leave did not reach it.

        Raises:
            ValueError: `timeout_ms` is negative; the consumer is still open.
        """
        require_duration("timeout_ms", timeout_ms)
        await self._close(is_processed=True, timeout_ms=timeout_ms)

    async def _close(
        self, *, is_processed: bool, timeout_ms: float = DEFAULT_CLOSE_TIMEOUT_MS
    ) -> None:
        if self._cluster is not None:
            self._cluster.require_own_loop()
        self._is_closed = True
        self._reader.close()
        if self._cluster is None:
            return
        if not self._closing.begin():
            await self._closing.wait(timeout_ms / 1000)
            return
        if is_processed:
            self._reader.take_back()
        # No reader is left to wait for.
        self._gate.give_back()
        try:
            if self._group is not None:
                await self._group.stop(_deadline_s(timeout_ms))
            await self._fetcher.stop()
        finally:
            self._has_ended = True
            try:
                await self._cluster.close()
            finally:
                self._closing.end()

    # Assignment and positions

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on. Partitions that stay keep their position.

        With a `group_id`, reading starts at the committed offsets of the group. Otherwise
        `auto_offset_reset` decides, unless a seek follows.

        Raises:
            NotInGroupError: the consumer is subscribed; await `unsubscribe` first.
            ConfigurationError: an element is no `TopicPartition`; nothing was assigned.
        """
        wanted = require_partitions("topic_partitions", topic_partitions)
        if self._group is not None and self._group.is_subscribed:
            text = "assign() and subscribe() exclude each other: await unsubscribe() first"
            raise NotInGroupError(text)
        self._reading.assign(wanted, wants_committed=self._group_config is not None)

    async def assign_topics(self, *topics: str) -> list[TopicPartition]:
        """Read exactly the current partitions of `topics` from now on, and return them.

        Partitions added to a topic later are not read; call this again for them.

        Raises:
            UnknownTopicError: there is no such topic.
            NotInGroupError: the consumer is subscribed; await `unsubscribe` first.
        """
        found = []
        for topic in topics:
            found += await self.partitions_of(topic)
        self.assign(found)
        return found

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of `topic`, in ascending order.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        held = await self._started().topic(topic, self._timeout_s)
        return [TopicPartition(topic, partition) for partition in sorted(held.partitions)]

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer reads now."""
        return self._reading.partitions()

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continue reading a partition at `offset`, in the topic of this name that exists now.

        If the log does not contain `offset`, `auto_offset_reset` applies at the next read.

        Raises:
            NotAssignedError: the partition is not assigned; call `assign` first.
            ValueError: `offset` is negative (use `seek_to_end`), or no whole number of 64 bits.
        """
        state = self._reading.state(topic_partition)
        self._reading.seek(state, parse_offset(state.topic_partition, offset))

    async def seek_to_beginning(self, *topic_partitions: TopicPartition) -> None:
        """Continue at the log start offset, in these partitions or in all assigned ones.

        Raises:
            NotAssignedError: one of the partitions is not assigned.
        """
        await self._seek_to(EARLIEST_TIMESTAMP, topic_partitions)

    async def seek_to_end(self, *topic_partitions: TopicPartition) -> None:
        """Continue at the end of the log, in these partitions or in all assigned ones.

        Raises:
            NotAssignedError: one of the partitions is not assigned.
        """
        await self._seek_to(LATEST_TIMESTAMP, topic_partitions)

    async def seek_to_timestamp(self, topic_partition: TopicPartition, timestamp_ms: int) -> None:
        """Continue at the first record whose timestamp is `timestamp_ms` or later.

        If there is no such record, continue at the end of the log.

        Raises:
            NotAssignedError: the partition is not assigned.
            ValueError: `timestamp_ms` is negative, or no whole number of 64 bits.
        """
        self._reading.state(topic_partition)
        found = (await self.offsets_for_times({topic_partition: timestamp_ms}))[topic_partition]
        if found is None:
            await self._seek_to(LATEST_TIMESTAMP, (topic_partition,))
        else:
            self.seek(topic_partition, found.offset)

    def seek_to_committed(self, *topic_partitions: TopicPartition) -> None:
        """Continue at the committed offsets, in these partitions or in all assigned ones.

        Records that were handed over after them are read again: call this after an aborted
        transaction. Without a committed offset a partition continues where `auto_offset_reset`
        says.

        Raises:
            NotAssignedError: one of the partitions is not assigned.
            NotInGroupError: there is no `group_id`.
        """
        self._started_group("seek_to_committed")
        self._reading.seek_to_committed(self._reading.states(topic_partitions))

    def position(self, topic_partition: TopicPartition) -> Offset | None:
        """Return the offset of the next record to read; None while it is not known yet.

        Raises:
            NotAssignedError: the partition is not assigned.
        """
        return self._buffer.position(self._reading.state(topic_partition))

    def pause(self, *topic_partitions: TopicPartition) -> None:
        """Suspend reading of these partitions until `resume`. They stay assigned.

        Raises:
            NotAssignedError: one of the partitions is not assigned; then none is paused.
        """
        self._reading.pause([self._reading.state(each) for each in topic_partitions])

    def resume(self, *topic_partitions: TopicPartition) -> None:
        """Resume reading of these partitions where they were paused.

        Raises:
            NotAssignedError: one of the partitions is not assigned; then none is resumed.
        """
        self._reading.resume([self._reading.state(each) for each in topic_partitions])

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return [state.topic_partition for state in self._reading.states(()) if state.is_paused]

    # Reading

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Yield records one by one, and wait for new ones until the consumer is closed.

        Leaving the loop loses no record: the next read continues after the last one. After an error
        of one partition the next read tries it again. An error of the group stays until the group
        accepts the consumer again; the error of a callback, until the next `subscribe`.

        Raises:
            OffsetOutOfRangeError: a position is not in the log; seek, or set a reset policy.
            LogTruncatedError: records that were read are gone; seek, or set a reset policy.
            CorruptRecordsError: a batch is damaged; seek past it to continue.
            DeserializationError: a deserializer raised; seek past the record to continue.
            RebalanceFailedError: a callback of `subscribe` raised; subscribe again.
            NotAuthorizedError: this user may not read, or not even describe, one of the topics.
            BrokerError: a broker refused the request; the message has its reason.
            ClientClosedError: the consumer was not started, or was closed before the loop began.
        """
        self._started()
        self._leave_streams()
        while (cursor := await self._reader.cursor()) is not None:
            self._reader.hand_over()
            # Nothing else per record: the cursor reads the position off the iterator.
            for record in cursor.iterator:
                yield record

    async def fetch_batch(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ConsumerRecord]:
        """Return up to `max_records` records, as soon as there is at least one.

        This is the fastest way to read. There are fewer records if they expand to more than 4 MiB,
        so that memory is needed for no more than this and one batch of the log. Return an empty
        list if no record arrives within `timeout_ms`; None waits without limit. The time of
        deserializers does not count. Cancelling the call loses no record. In a group the records
        count as processed when the next read begins.

            while records := await consumer.fetch_batch(timeout_ms=1_000):
                store(records)

        Raises:
            ValueError: `max_records` is no whole number above 0, or `timeout_ms` is negative.
            ClientClosedError: the consumer is closed.
            OttlaError: as for `async for`.
        """
        max_records = require_whole("max_records", max_records, 1, MAX_OFFSET)
        if timeout_ms is not None:
            require_duration("timeout_ms", timeout_ms)
        self._started()
        self._leave_streams()
        records = await self._reader.batch(max_records, timeout_ms)
        if records is None:
            raise ClientClosedError("the consumer is closed: make a new one")
        return records

    async def fetch_by_partition(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return up to `max_records` records grouped by partition; otherwise as `fetch_batch`."""
        sorted_records: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in await self.fetch_batch(max_records, timeout_ms):
            key = TopicPartition(record.topic, record.partition)
            sorted_records.setdefault(key, []).append(record)
        return sorted_records

    def partition_streams(self) -> PartitionStreams:
        """Return an async iterable of streams, one per partition, for several tasks.

            async with asyncio.TaskGroup() as tasks:
                async for stream in consumer.partition_streams():
                    tasks.create_task(handle(stream))

        A stream yields the records of its partition in order, and ends when the partition is taken
        away or the consumer is closed; a new assignment has a new stream. A slow task holds up no
        other partition. An error ends all streams, and the records that they have not handed over
        are read again. Iterate over the streams to the end, and use no other method that reads,
        seeks or pauses meanwhile.

        Raises:
            ConfigurationError: `enable_auto_commit` is on in a group, although the consumer cannot
                know which records the tasks have processed; commit from the tasks instead.
        """
        if self._group_config is not None and self._group_config.enable_auto_commit:
            raise ConfigurationError(
                "partition_streams() needs enable_auto_commit=False: commit from the tasks, with "
                "`commit({stream.topic_partition: record.offset + 1})`"
            )
        self._leave_streams()
        self._streams = PartitionStreams(self)
        return self._streams

    def assigned_states(self) -> Mapping[TopicPartition, object]:
        """Return an object for each assigned partition: another one after each assignment."""
        return self._reading.held(self._reading.partitions())

    # Offsets

    async def beginning_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Return the log start offset of each partition; the position does not change.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such topic or partition.
        """
        return await self._log_offsets().beginning(topic_partitions)

    async def end_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Return the end offset (exclusive) of each partition; the position does not change.

        It is the high watermark, or with isolation_level="read_committed" the last stable offset.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such topic or partition.
        """
        return await self._log_offsets().end(topic_partitions)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset of the first record at or after a timestamp in ms, per partition.

        The value is None for a partition without such a record.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such topic or partition.
            ValueError: a timestamp is negative, or no whole number of 64 bits.
        """
        return await self._log_offsets().for_times(timestamps_ms)

    def highwater(self, topic_partition: TopicPartition) -> Offset | None:
        """Return the end of the readable log as the last fetch found it; None before that.

        Raises:
            NotAssignedError: the partition is not assigned.
        """
        return self._reading.state(topic_partition).end_offset

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return the number of offsets from the position to `highwater`; None while unknown.

        Raises:
            NotAssignedError: the partition is not assigned.
        """
        end, position = self.highwater(topic_partition), self.position(topic_partition)
        return None if end is None or position is None else max(end - position, 0)

    def metrics(self) -> dict[str, float]:
        """Return counters and sizes by the names of Kafka's consumer, such as "records-lag-max".

        Raises:
            ClientClosedError: the consumer was not started, or is closed.
        """
        health = self.health()
        partitions = self._reading.partitions()
        lags = [lag for each in partitions if (lag := self.lag(each)) is not None]
        return consumer_metrics(
            self._fetcher.counts,
            record_count=self._buffer.record_count,
            size_bytes=self._buffer.read_bytes,
            buffered_bytes=self._buffer.size_bytes,
            lags=lags,
            partition_count=len(partitions),
            health=health,
        )

    def health(self) -> Health:
        """Return whether brokers can be reached, and the group accepts this consumer.

        Raises:
            ClientClosedError: the consumer was not started, or is closed.
        """
        health = self._started().health()
        if self._group is not None and self._group.error is not None:
            return health._replace(is_healthy=False, reason=str(self._group.error))
        return health

    # The group

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Read `topics` as a member of the group; this replaces the previous subscription.

        The consumer joins the group in the background and gets a share of the partitions.
        Reading starts at the committed offsets, or where `auto_offset_reset` says.

        Each callback is a plain or `async` function of a sequence of partitions. If it raises,
        the next read raises RebalanceFailedError.

        Args:
            topics: Names of topics. A topic that does not exist yet is read once it exists.
            pattern: Instead of names, a regular expression: every topic whose whole name matches
                is read, except for internal ones. New topics are found with the next refresh of
                the metadata (`metadata_max_age_ms`).
            on_assigned: Called after each rebalance with the added partitions (perhaps none),
                before their first record is read.
            on_revoked: Called with partitions that are about to move to another member. All of
                their records in hand were processed, and `commit` still works for them.
            on_lost: Called with partitions that may already belong to another member, so that
                nothing can be committed for them. Default: `on_revoked`.

        Raises:
            NotInGroupError: there is no `group_id`, or partitions were assigned by hand; call
                `assign([])` first.
            ConfigurationError: `topics` or a name is empty, or `topics` is a single string (pass a
                list); or `pattern` is malformed, or given with `topics`.
        """
        wanted = frozenset(require_names("topics", topics))
        for topic in wanted:
            require_topic(topic)
        compiled = None if pattern is None else parse_pattern(pattern)
        if compiled is not None and wanted:
            raise ConfigurationError("topics and pattern exclude each other: leave one out")
        if compiled is None and not wanted:
            raise ConfigurationError("topics is empty: name at least one, or use unsubscribe()")
        group = self._started_group("subscribe")
        if not group.is_subscribed and self._reading.partitions():
            raise NotInGroupError("partitions were assigned by hand: call assign([]) first")
        listener = RebalanceListener(
            on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
        )
        if compiled is not None:
            group.subscribe_pattern(compiled, listener)
        else:
            group.subscribe(wanted, listener)

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics; empty without a subscription."""
        return frozenset() if self._group is None else self._group.session.topics

    def missing_topics(self) -> frozenset[str]:
        """Return the assigned and subscribed topics that do not exist by the latest metadata.

        The consumer waits for topics of these names, and then continues where `auto_offset_reset`
        says.

        Raises:
            ClientClosedError: the consumer was not started, or is closed.
        """
        topics = self._started().metadata.topics
        wanted = self.subscription() | {each.topic for each in self.assignment()}
        return frozenset(
            name
            for name in wanted
            if name in topics and topics[name].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    async def unsubscribe(self) -> None:
        """Commit as `close` does, leave the group, and stop reading.

        Raises:
            NotInGroupError: there is no `group_id`.
        """
        group = self._group_of_this_loop("unsubscribe")
        self._reader.take_back()
        await group.unsubscribe(_deadline_s(DEFAULT_CLOSE_TIMEOUT_MS))

    async def commit(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None
    ) -> None:
        """Commit `offsets`, or by default the position after every record handed over so far.

        An offset is that of the next record to read: one more than the last processed record.
        When this returns, the coordinator has stored the offsets, and the next owner of a
        partition starts there.

            async for record in consumer:
                await process(record)
                partition = TopicPartition(record.topic, record.partition)
                await consumer.commit({partition: record.offset + 1})

        Raises:
            NotInGroupError: there is no `group_id`.
            CommitFailedError: a partition was taken away, or the group removed this member;
                nothing was committed, and another member may read the records again.
            ValueError: an offset is negative.
            OttlaError: the coordinator cannot be reached, or refuses.
        """
        group = self._group_of_this_loop("commit")
        await group.commit(self._handed_over() if offsets is None else parse_commit(offsets))

    async def committed(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offset of the group per partition; None where there is none.

        Raises:
            NotInGroupError: there is no `group_id`.
            OttlaError: the coordinator cannot be reached, or refuses.
        """
        wanted = require_partitions("topic_partitions", topic_partitions)
        return await self._group_of_this_loop("committed").store.committed(wanted)

    def positions(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions after all records handed over so far, as `commit` commits them.

        Partitions without a known position are left out.
        """
        return self._handed_over()

    def group_metadata(self) -> GroupMetadata:
        """Return the membership for `Producer.send_offsets_to_transaction`.

        Call it, and `positions`, after the records of the transaction were handed over and before
        more are requested: while they are in hand, no other member gets their partitions unless the
        group removes this one, and then the offsets are refused.

        Raises:
            NotInGroupError: there is no `group_id`.
            ConfigurationError: `enable_auto_commit` is on, which would commit the offsets of
                aborted transactions.
            CommitFailedError: the group has removed this member; abort the transaction.
        """
        group = self._started_group("group_metadata")
        return group.metadata()

    # Inside

    def _make_group(self, cluster: Cluster) -> ConsumerGroup | None:
        if self._group_config is None:
            return None
        return ConsumerGroup(
            cluster,
            self._group_config,
            self._reading,
            self._gate,
            None if self._hooks is None else self._hooks.on_commit,
        )

    def _handed_over(self) -> dict[TopicPartition, CommittedOffset]:
        found = self._reading.handed_over()
        waiting: Mapping[TopicPartition, Offset] = {}
        if self._streams is not None:
            waiting = self._streams.waiting()
        for each, offset in waiting.items():
            # The reader of the streams has these records, but no task has. A position in a topic
            # that was created again may be below them.
            if each in found and offset < found[each].offset:
                found[each] = CommittedOffset(offset)
        return found

    def _leave_streams(self) -> None:
        """Before another read: an iteration over streams that was left may not be closed yet."""
        if self._streams is not None:
            self._streams.leave()

    def _started_group(self, method: str) -> ConsumerGroup:
        # Also while the consumer is closing: callbacks of the user may still commit.
        if self._has_ended or self._cluster is None:
            self._started()
        if self._group is None:
            raise NotInGroupError(f"{method}() is for members of a group: set group_id")
        return self._group

    def _group_of_this_loop(self, method: str) -> ConsumerGroup:
        group = self._started_group(method)
        if self._cluster is not None:
            self._cluster.require_own_loop()
        return group

    def _on_change(self) -> None:
        """Wake the fetcher and the group: the metadata or a connection has changed."""
        recreated = self._reading.on_metadata()
        self._report_refusal()
        if self._group is not None:
            self._group.forget_commits(recreated)
            self._group.on_metadata()

    def _report_refusal(self) -> None:
        """Let the next read raise that the brokers refuse a topic, once for each refresh."""
        assert self._cluster is not None
        if self._reported_refresh != self._cluster.metadata_refresh:
            self._reported_refresh = self._cluster.metadata_refresh
            # Found again by that read: the application may have left the topic by then.
            self._reader.on_metadata(self._refusal)

    def _refusal(self) -> BrokerError | None:
        assert self._cluster is not None
        wanted = self.subscription() | {each.topic for each in self.assignment()}
        return refusal(self._cluster.metadata, wanted)

    async def _seek_to(self, timestamp: int, topic_partitions: Sequence[TopicPartition]) -> None:
        states = self._reading.states(topic_partitions)
        found = await self._log_offsets().at(timestamp, [state.topic_partition for state in states])
        self._reading.seek_found(found)

    def _log_offsets(self) -> LogOffsets:
        return LogOffsets(self._started(), self._config.isolation_level, self._timeout_s)

    @property
    def _timeout_s(self) -> float:
        return self._client_config.request_timeout_ms / 1000

    def _started(self) -> Cluster:
        if self._cluster is None or self._is_closed:
            raise ClientClosedError(
                "the consumer is not running: use `async with Consumer(...)`, and read before its "
                "end"
            )
        self._cluster.require_own_loop()
        return self._cluster


def _deadline_s(timeout_ms: float) -> float:
    return asyncio.get_running_loop().time() + timeout_ms / 1000
