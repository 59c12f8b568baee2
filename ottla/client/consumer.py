"""The consumer that users hold. Composition of reader, fetcher, buffer, cluster and group."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from kafkawire.ids import Offset, TopicPartition
from ottla.client.argument import require_names
from ottla.client.cluster import Cluster
from ottla.client.config import (
    MIB,
    ClientConfig,
    ConsumerConfig,
    IsolationLevel,
    ResetPolicy,
    parse_bootstrap,
)
from ottla.client.errors import ClientClosedError, ConfigurationError, NotInGroupError
from ottla.client.fetch_buffer import FetchBuffer
from ottla.client.fetcher import RESET_TIMESTAMPS, Fetcher
from ottla.client.group.committed_offset import CommittedOffset, parse_commit
from ottla.client.group.config import (
    DEFAULT_ASSIGNORS,
    AssignorName,
    GroupConfig,
    parse_assignors,
)
from ottla.client.group.group import ConsumerGroup
from ottla.client.group.listener import OnPartitions, RebalanceListener
from ottla.client.group.read_gate import ReadGate
from ottla.client.log_offsets import LogOffsets
from ottla.client.offset_lookup import OffsetAndTimestamp
from ottla.client.partition_state import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.reading import Reading
from ottla.client.record import ConsumerRecord
from ottla.client.record_reader import RecordReader

DEFAULT_CLOSE_TIMEOUT_MS: Final = 30_000
"""As Java's consumer."""


class Consumer:
    """Reads records, alone or with the other members of a group. Use with `async with`.

    Alone: `assign` says which partitions. In a group (`group_id`): `subscribe` says which topics,
    their partitions are shared among the members, and how far they were read is committed.
    Records of one partition come in the order of their offsets; partitions take turns. While
    records are handed over the next ones are fetched, up to `prefetch_max_bytes`.
    Belongs to one event loop; one task at a time may read.

    A record counts as processed when the next one is asked for. Only what was processed is
    committed by itself, and only then a partition is given to another member: no record is lost
    when a member dies, and none is read twice when it leaves in order.
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

        In a group, `group_instance_id` makes a static member, whose partitions wait for it over a
        restart (KIP-345). A member that is silent for `session_timeout_ms`, or asks for no record
        for `max_poll_interval_ms`, loses its partitions to the others.

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
        self._reader = RecordReader(self._buffer)
        reset_to = RESET_TIMESTAMPS[auto_offset_reset]
        self._reading = Reading(self._buffer, reset_to, self._reader.wake)
        self._cluster: Cluster | None = None
        self._group: ConsumerGroup | None = None
        self._fetcher: Fetcher
        self._gate: ReadGate
        self._is_closed = False
        self._has_ended = False

    async def start(self) -> None:
        """Connect; `async with` does this.

        Raises:
            NoBrokerAvailableError: none of the bootstrap servers can be reached.
        """
        if self._cluster is not None:
            raise ClientClosedError("a consumer starts once: make a new one")
        self._cluster = cluster = Cluster(self._client_config, allow_auto_topic_creation=False)
        self._gate = ReadGate(asyncio.get_running_loop(), self._buffer.interrupt)
        self._gate.on_open = self._reader.wake
        self._group = group = self._make_group(cluster)
        committed = None if group is None else group.store.committed_once
        self._fetcher = Fetcher(cluster, self._config, self._buffer, self._reader.wake, committed)
        self._reader.begin(self._gate, self._fetcher.run, group)
        await cluster.start()
        cluster.on_change = self._on_change
        self._reading.begin(cluster, self._fetcher)
        if group is not None:
            group.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        _exception: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        # What a body that failed had in hand was not processed.
        await self._close(is_processed=exception_type is None)

    async def close(self, timeout_ms: float = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """Commit, leave the group, stop fetching and disconnect. Iteration under way ends.

        After `timeout_ms` it stops waiting for brokers, and for functions given to `subscribe`.
        What was not committed by then is read again; a group that was not told of the leaving
        waits for the end of the session.
        """
        await self._close(is_processed=True, timeout_ms=timeout_ms)

    async def _close(
        self, *, is_processed: bool, timeout_ms: float = DEFAULT_CLOSE_TIMEOUT_MS
    ) -> None:
        was_closed, self._is_closed = self._is_closed, True
        self._reader.close()
        if self._cluster is None or was_closed:
            return
        if is_processed:
            self._reader.take_back()
        # There is no reader any more to wait for.
        self._gate.give_back()
        try:
            if self._group is not None:
                await self._group.stop(_deadline_s(timeout_ms))
            await self._fetcher.stop()
        finally:
            self._has_ended = True
            await self._cluster.close()

    # Assignment and positions

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on; those that are kept keep their position.

        With a `group_id` reading begins where the group has committed.

        Raises:
            NotInGroupError: the group shares out the partitions: use `unsubscribe` first.
        """
        self._refuse_members("assign")
        self._reading.assign(topic_partitions, wants_committed=self._group_config is not None)

    async def assign_topics(self, *topics: str) -> list[TopicPartition]:
        """Read all partitions of `topics` from now on, and return them.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        found = []
        for topic in topics:
            found += await self.partitions_of(topic)
        self.assign(found)
        return found

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of `topic`.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        held = await self._started().topic(topic, self._timeout_s)
        return [TopicPartition(topic, partition) for partition in sorted(held.partitions)]

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return self._reading.partitions()

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Go on at `offset`; one that is not in the log is met by the reset policy.

        Raises:
            NotAssignedError: the partition is not assigned.
            ValueError: `offset` is negative.
        """
        if offset < 0:
            raise ValueError(f"an offset is 0 or more, got {offset}; use seek_to_end(...)")
        self._reading.seek(self._reading.state(topic_partition), offset)

    async def seek_to_beginning(self, *topic_partitions: TopicPartition) -> None:
        """Go on at the start of the log, in these partitions or in all."""
        await self._seek_to(EARLIEST_TIMESTAMP, topic_partitions)

    async def seek_to_end(self, *topic_partitions: TopicPartition) -> None:
        """Go on at the end of the log, in these partitions or in all."""
        await self._seek_to(LATEST_TIMESTAMP, topic_partitions)

    async def seek_to_timestamp(self, topic_partition: TopicPartition, timestamp_ms: int) -> None:
        """Go on at the first record that is as late as `timestamp_ms`, or at the end."""
        self._reading.state(topic_partition)
        found = (await self.offsets_for_times({topic_partition: timestamp_ms}))[topic_partition]
        if found is None:
            await self._seek_to(LATEST_TIMESTAMP, (topic_partition,))
        else:
            self.seek(topic_partition, found.offset)

    def position(self, topic_partition: TopicPartition) -> Offset | None:
        """Return the offset of the next record; None while that is not known yet."""
        return self._buffer.position(self._reading.state(topic_partition))

    def pause(self, *topic_partitions: TopicPartition) -> None:
        """Hand over nothing of these partitions until `resume`; their position stays."""
        for state in [self._reading.state(each) for each in topic_partitions]:
            self._buffer.pause(state)

    def resume(self, *topic_partitions: TopicPartition) -> None:
        """Hand over records of these partitions again."""
        self._reading.resume([self._reading.state(each) for each in topic_partitions])

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return [state.topic_partition for state in self._reading.states(()) if state.is_paused]

    # Reading

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Hand over records one by one, waiting for new ones, until the consumer is closed.

        Leaving the loop loses nothing: whoever reads next goes on behind the last record.

        Raises:
            OffsetOutOfRangeError, CorruptRecordsError: the position cannot be read.
            BrokerError: a broker refuses; reading again tries again.
        """
        while True:
            self._started()
            if (cursor := await self._reader.cursor()) is None:
                return
            self._reader.hand_over()
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
        self._started()
        records = await self._reader.batch(max_records, timeout_ms)
        if records is None:
            raise ClientClosedError("the consumer is closed: make a new one")
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
        return await self._log_offsets().beginning(topic_partitions)

    async def end_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Return the offset behind the last record that may be read, for each log."""
        return await self._log_offsets().end(topic_partitions)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record that is as late as its timestamp; None where there is none."""
        return await self._log_offsets().for_times(timestamps_ms)

    # The group

    def subscribe(
        self,
        topics: Iterable[str],
        *,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Share `topics` with the other members of the group, from now on and instead of others.

        The functions, plain or `async`, are told of partitions that come and go: `on_assigned`
        before their first record, `on_revoked` after their last one and before another member
        gets them (what is to be committed for them can be), `on_lost` (else `on_revoked`) when
        they may be another's already.

        Raises:
            NotInGroupError: there is no `group_id`, or partitions were assigned by hand.
            ConfigurationError: `topics` is empty, or a single string.
        """
        wanted = frozenset(require_names("topics", topics))
        if not wanted:
            raise ConfigurationError("topics is empty: name at least one, or use unsubscribe()")
        group = self._started_group("subscribe")
        if not group.session.topics and self._reading.partitions():
            raise NotInGroupError("partitions were assigned by hand: call assign([]) first")
        listener = RebalanceListener(
            on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
        )
        group.subscribe(wanted, listener)

    def subscription(self) -> frozenset[str]:
        """Return the topics that are subscribed to."""
        return frozenset() if self._group is None else self._group.session.topics

    async def unsubscribe(self) -> None:
        """Commit as on closing, leave the group, and read nothing more."""
        group = self._started_group("unsubscribe")
        self._reader.take_back()
        await group.unsubscribe(_deadline_s(DEFAULT_CLOSE_TIMEOUT_MS))

    async def commit(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None
    ) -> None:
        """Commit `offsets` (the next one to be read, per partition), else all that was handed over.

        When this returns, whoever reads on in the group begins there.

        Raises:
            NotInGroupError: there is no `group_id`.
            CommitFailedError: the group has gone on, and the partitions may be another's.
            OttlaError: the coordinator cannot be asked, or refuses.
        """
        group = self._started_group("commit")
        handed_over = self._reading.handed_over
        await group.commit(handed_over() if offsets is None else parse_commit(offsets))

    async def committed(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return what the group has committed; None where it has not.

        Raises:
            NotInGroupError: there is no `group_id`.
            OttlaError: the coordinator cannot be asked, or refuses.
        """
        wanted = [TopicPartition(*each) for each in topic_partitions]
        return await self._started_group("committed").store.committed(wanted)

    # Inside

    def _make_group(self, cluster: Cluster) -> ConsumerGroup | None:
        if self._group_config is None:
            return None
        return ConsumerGroup(
            cluster,
            self._group_config,
            self._reading,
            self._gate,
            is_read_committed=self._config.isolation_level == "read_committed",
        )

    def _started_group(self, wish: str) -> ConsumerGroup:
        # Also while it is being closed: functions that are told of it may commit.
        if self._has_ended or self._cluster is None:
            self._started()
        if self._group is None:
            raise NotInGroupError(f"{wish}() is for members of a group: set group_id")
        return self._group

    def _refuse_members(self, wish: str) -> None:
        if self.subscription():
            text = f"{wish}() and subscribe() exclude each other: await unsubscribe() first"
            raise NotInGroupError(text)

    def _on_change(self) -> None:
        """Look again: the metadata or a connection has changed."""
        self._fetcher.wake()
        if self._group is not None:
            self._group.session.on_metadata()

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
