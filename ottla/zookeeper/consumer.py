"""A consumer whose group meets in the coordinator (composition)."""

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Final, Self, Unpack

from coordination.client import Client, SessionState
from coordination.errors import OperationError
from kafkawire.ids import TopicPartition, validate_topic_name
from kafkawire.sentinels import MAX_OFFSET
from ottla.client.argument import (
    require_duration,
    require_names,
    require_partitions,
    require_whole,
)
from ottla.client.background import Closing, TaskSet
from ottla.client.client_config import Address, ClientConfig, ConsumerConfig
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.group.rebalance_listener import OnPartitions, RebalanceListener
from ottla.client.consumer.positions import RESET_TIMESTAMPS
from ottla.client.consumer.reading import Reading
from ottla.client.consumer.record_handover import RecordHandover
from ottla.client.errors import (
    ClientClosedError,
    ConfigurationError,
    NoBrokerAvailableError,
    NotInGroupError,
    OttlaError,
)
from ottla.client.network.cluster import Cluster
from ottla.client.network.group_coordinator import group_coordinator
from ottla.client.network.offset_store import OffsetStore as KafkaStore
from ottla.client.offset import CommittedOffset, parse_commit
from ottla.client.record import ConsumerRecord
from ottla.client.security import SecurityOptions, security_of
from ottla.zookeeper.broker_addresses import BrokerAddresses
from ottla.zookeeper.group import GroupSide
from ottla.zookeeper.kafka_group import warn_of_kafka_members
from ottla.zookeeper.login import load_login
from ottla.zookeeper.membership import Membership
from ottla.zookeeper.naming import JafkaNaming, KafkaNaming, Naming
from ottla.zookeeper.offset_store import DualStore, GroupStore, NodeStore, OffsetStore, OwnedStore
from ottla.zookeeper.rebalance import Rebalance
from ottla.zookeeper.refusal import reason_of
from ottla.zookeeper.registration import Layout, Pattern, Registration, consumer_id
from ottla.zookeeper.settings import OffsetPlace, ResetWord, member_settings
from ottla.zookeeper.topic_filter import filter_text, topic_filter

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 30.0
DEFAULT_CLOSE_TIMEOUT_MS: Final = 30_000
MAX_CONSUMER_ID_CHARACTERS: Final = 249


class ZooKeeperConsumer:
    """Reads topics as a member of a group of Kafka's old consumers, or of Jafka's.

        async with ZooKeeperConsumer("zk1:2181,zk2:2181/kafka", group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            async for record in consumer:
                print(record.partition, record.offset, record.value)

    The members find each other, their partitions and their offsets in the coordinator; brokers only
    serve records. Members in Java share the group and see no difference.

    Delivery: as `ottla.Consumer`, a record counts as processed once the next one is requested, and
    only processed records are committed. While the session with the coordinator is in doubt no
    record is handed over. Members in Java commit without conditions, so one that was paused may
    still write an old offset; this consumer never replaces an offset by a smaller one.

    An instance belongs to one event loop, and only one task at a time may read. A loop that is busy
    for half of the session timeout may lose the session, and with it all partitions.
    """

    def __init__(
        self,
        coordinator: str,
        *,
        group_id: str,
        consumer_id: str | None = None,
        layout: str = "kafka",
        streams: int = 1,
        partition_assignment_strategy: str = "range",
        exclude_internal_topics: bool = True,
        auto_offset_reset: ResetWord | None = None,
        offsets: OffsetPlace | OffsetStore = "znodes",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int | None = None,
        rebalance_max_retries: int = 4,
        rebalance_backoff_ms: int | None = None,
        session_timeout_ms: int = 6_000,
        coordinator_login: Path | str | None = None,
        holds_on_suspect: bool = True,
        keep_unmoved: bool = True,
        release_patience_ms: int = 3_000,
        request_timeout_ms: int = 30_000,
        client_id: str = "ottla",
        **security: Unpack[SecurityOptions],
    ) -> None:
        """Configure the consumer; `start` or `async with` connects it.

        Args:
            coordinator: Addresses of the coordinator or ensemble, and the chroot of the cluster:
                "host:port,host:port/chroot".
            group_id: Name of the group: letters, digits, '.', '_' and '-'.
            consumer_id: Last part of this member's id; by default host, time and random digits.
            layout: Form of the nodes: "kafka" (0.8 to 1.1) or "jafka" (Jafka, Kafka 0.7). It also
                chooses the defaults below, as in the Java clients.
            streams: Weight of this member: its number of threads in the formula.
            partition_assignment_strategy: "range" or "roundrobin"; all members need the same.
            exclude_internal_topics: Whether filters omit Kafka's internal topics.
            auto_offset_reset: Start of a partition without offset: "smallest" ("earliest"),
                "largest" ("latest"), or "none". Default: largest for kafka, smallest for jafka.
            offsets: Place of the offsets: "znodes", "kafka" (the Kafka group of the same name),
                "both", or a store of your own. Only znodes refuse every offset of a former owner.
            enable_auto_commit: Commit processed records in the background, before a rebalance
                and on close; only offsets that have changed are written.
            auto_commit_interval_ms: Interval of these commits. Default: 60000 for kafka, 1000 for
                jafka.
            rebalance_max_retries: Number of conflicts with live owners that last for the back-off,
                after which the member leaves the group, and the next read raises
                TooManyConflictsError.
            rebalance_backoff_ms: Delay after a conflict. Default: 2000 for kafka, 10000 for jafka.
            session_timeout_ms: Time without contact after which the coordinator removes this
                member.
            coordinator_login: File with a login at the coordinator, read once: a Java login
                configuration with a section `Client`, as `ottla up` keeps one in its directory.
            holds_on_suspect: Hand over no record while the session may have ended. Members in Java
                continue.
            keep_unmoved: Keep reading partitions that a rebalance does not move. Without it all are
                released, as members in Java do.
            release_patience_ms: Time for the reader to process its records in hand before their
                partitions go to another member without it.
            request_timeout_ms: Time limit of one request to a broker.
            client_id: Name of this client in the logs and quotas of the brokers.
            **security: TLS and authentication at the brokers; see `SecurityOptions`.

        Raises:
            ConfigurationError: a setting is out of range; the message has its value and limits.
        """
        self._settings = settings = member_settings(
            group_id=group_id,
            layout=layout,
            strategy=partition_assignment_strategy,
            streams=streams,
            auto_offset_reset=auto_offset_reset,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            rebalance_max_retries=rebalance_max_retries,
            rebalance_backoff_ms=rebalance_backoff_ms,
            session_timeout_ms=session_timeout_ms,
        )
        if isinstance(offsets, str) and offsets not in ("znodes", "kafka", "both"):
            raise ConfigurationError(f"offsets must be znodes, kafka or both, got {offsets!r}")
        self.consumer_id = _consumer_id(group_id, consumer_id)
        self._offsets = offsets
        self._exclude_internal = exclude_internal_topics
        self._patience_ms = release_patience_ms
        self._request_timeout_ms = request_timeout_ms
        self._client_id = client_id
        self._protocol = security.get("security_protocol", "PLAINTEXT")
        self._security = security_of(**security)
        self._machine = Rebalance(
            max_tries=settings.rebalance_max_retries,
            backoff_ms=settings.rebalance_backoff_ms,
            keep_unmoved=keep_unmoved,
            holds_on_suspect=holds_on_suspect,
        )
        self._config = ConsumerConfig(auto_offset_reset=settings.reset)
        self._buffer = FetchBuffer(self._config)
        self._reader = RecordHandover(self._buffer)
        self._reading = Reading(self._buffer, RESET_TIMESTAMPS[settings.reset], self._reader.wake)
        login = load_login(coordinator_login)
        try:
            self._client = Client(coordinator, session_timeout_ms=session_timeout_ms, login=login)
        except ValueError as error:
            raise ConfigurationError(f"coordinator: {error}") from error
        self._addresses = BrokerAddresses(self._client, settings.layout, self._protocol)
        self._cluster: Cluster | None = None
        self._membership: Membership | None = None
        self._registration: Registration | None = None
        self._fetcher: Fetcher
        self._gate: ReadGate
        self._group: GroupSide
        self._naming: Naming
        self._tasks: TaskSet
        self._is_closed = False
        self._closing = Closing()
        self._end_after_callback: asyncio.Task[None] | None = None
        """Kept here, because an event loop does not keep its tasks."""

    async def start(self) -> None:
        """Connect to the coordinator, and to a broker that it lists. `async with` calls this.

        Raises:
            NoBrokerAvailableError: the coordinator cannot be reached, or lists no broker.
            ClientClosedError: the consumer was started or closed before; create a new one.
        """
        if self._cluster is not None or self._is_closed:
            raise ClientClosedError("a consumer starts once: make a new one")
        try:
            await self._client.connect(CONNECT_TIMEOUT_S)
            has_brokers = await self._addresses.wait(CONNECT_TIMEOUT_S)
        except OperationError as error:
            await self._client.abandon()
            reason = reason_of(error, self._client.failure)
            raise NoBrokerAvailableError(f"the coordinator cannot be read: {reason}") from error
        except BaseException:
            # Nothing else would end the session of a cancelled start.
            await self._client.abandon()
            raise
        if not has_brokers:
            await self._client.close()
            raise NoBrokerAvailableError(
                f"the coordinator lists no broker with a {self._protocol} listener"
            )
        try:
            self._require_open()
            self._cluster = Cluster(self._client_config(), allow_auto_topic_creation=False)
            await self._begin(self._cluster)
        except BaseException:
            self._cluster = None
            await self._client.close()
            raise

    async def _begin(self, cluster: Cluster) -> None:
        settings, loop = self._settings, asyncio.get_running_loop()
        self._gate = ReadGate(loop, self._buffer.interrupt)
        self._gate.on_open = self._reader.wake
        timeout_s = self._request_timeout_ms / 1000
        self._naming = (
            KafkaNaming() if settings.layout is Layout.KAFKA else JafkaNaming(cluster, timeout_s)
        )
        self._group = GroupSide(
            settings.group_id,
            self._reading,
            self._gate,
            self._naming,
            auto_commit_interval_ms=settings.auto_commit_interval_ms,
            release_patience_ms=self._patience_ms,
        )
        self._fetcher = Fetcher(
            cluster, self._config, self._buffer, self._reader.wake, self._group.committed
        )
        self._reader.begin(self._gate, self._fetcher.run, self._group)
        self._tasks = TaskSet(loop)
        await cluster.start()
        self._require_open()
        cluster.on_change = self._on_change
        self._reading.begin(cluster, self._fetcher)
        self._addresses.on_change = self._on_addresses
        self._client.on_state_change(self._on_state)
        self._tasks.spawn(self._addresses.follow(), "broker addresses")
        self._membership = None

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClientClosedError("the consumer was closed while it started")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._close(is_processed=kind is None, timeout_ms=DEFAULT_CLOSE_TIMEOUT_MS)

    async def close(self, timeout_ms: float = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """Commit, leave the group and disconnect. `async with` calls this.

        All records that were handed over count as processed, unless the body of `async with`
        raised. In a callback of `subscribe` this returns at once, and the consumer closes after
        the callback.
        """
        require_duration("timeout_ms", timeout_ms)
        await self._close(is_processed=True, timeout_ms=timeout_ms)

    async def _close(self, *, is_processed: bool, timeout_ms: float) -> None:
        self._is_closed = True
        self._reader.close()
        if self._cluster is None:
            return
        if not self._closing.begin():
            # The first call waits for the callbacks of `subscribe`, in a task of the membership.
            if not self._group.is_in_callback:
                await self._closing.wait(timeout_ms / 1000)
            return
        if is_processed:
            self._reader.take_back()
        self._gate.give_back()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        if self._group.is_in_callback:
            # The group waits for the callback.
            self._end_after_callback = loop.create_task(self._end(self._cluster, deadline_s))
        else:
            await self._end(self._cluster, deadline_s)

    async def _end(self, cluster: Cluster, deadline_s: float) -> None:
        try:
            await self._group.stop(deadline_s)
            await self._tasks.cancel_all()
            await self._fetcher.stop()
        finally:
            try:
                # With the session end the registration and all claims that are left.
                await self._client.close()
                await cluster.close()
            finally:
                self._closing.end()

    # The group

    def subscribe(
        self,
        topics: Iterable[str],
        *,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Read `topics`; a consumer subscribes once. See `Consumer.subscribe` for the
        callbacks.

        Raises:
            NotInGroupError: the consumer has a subscription.
            ConfigurationError: `topics` is empty, a single string (pass a list), or has a name that
                no topic can have.
        """
        wanted = sorted(set(require_names("topics", topics)))
        if not wanted:
            raise ConfigurationError("topics is empty: name at least one")
        for name in wanted:
            if (reason := validate_topic_name(name)) is not None:
                raise ConfigurationError(f"{name!r} is not the name of a topic: {reason}")
        listener = RebalanceListener(
            on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
        )
        self._join(Registration(dict.fromkeys(wanted, self._settings.streams)), listener)

    def subscribe_matching(
        self,
        regex: str,
        *,
        exclude: bool = False,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Read the topics whose whole name matches `regex`, or all others with `exclude`.

        Raises:
            NotInGroupError: the consumer has a subscription.
            ConfigurationError: the regex is invalid, or Java may read it differently.
        """
        topic_filter(regex)
        listener = RebalanceListener(
            on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
        )
        pattern = Pattern.BLACK_LIST if exclude else Pattern.WHITE_LIST
        self._join(Registration({filter_text(regex): self._settings.streams}, pattern), listener)

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer reads now."""
        return self._reading.partitions()

    def counters(self) -> dict[str, int]:
        """Return the numbers of rebalances, of conflicts, and of partitions owned now."""
        membership = self._membership
        return {
            "rebalances": membership.rebalance_count if membership else 0,
            "conflicts": membership.conflict_count if membership else 0,
            "owned": len(self._machine.held),
        }

    async def commit(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None
    ) -> None:
        """Commit `offsets`, or by default the position after every record handed over so far.

        Raises:
            NotInGroupError: the consumer has no subscription.
            CommitFailedError: a partition is not, or no longer, this member's.
            ValueError: an offset is negative.
            OttlaError: the coordinator cannot be reached, or refuses.
        """
        self._started()
        handed_over = self._reading.handed_over
        await self._group.commit(handed_over() if offsets is None else parse_commit(offsets))

    async def committed(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the offset of the group per partition; None where there is none.

        Raises:
            NotInGroupError: the consumer has no subscription.
            OttlaError: the coordinator cannot be reached, or refuses.
        """
        self._started()
        return await self._group.committed(require_partitions("topic_partitions", topic_partitions))

    # Reading

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Yield records one by one, and wait for new ones until the consumer is closed.

        Raises:
            TooManyConflictsError: other members keep our partitions; the next read joins again.
            RebalanceFailedError: a callback of `subscribe` raised.
            OttlaError: as for `Consumer`.
        """
        self._started()
        while True:
            try:
                cursor = await self._reader.cursor()
            except OttlaError:
                self._group.on_raised()
                raise
            if cursor is None:
                return
            self._reader.hand_over()
            for record in cursor.iterator:
                yield record

    async def fetch_batch(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ConsumerRecord]:
        """Return up to `max_records` records, as soon as there is at least one.

        Return an empty list if no record arrives within `timeout_ms`; None waits without limit.

        Raises:
            ValueError: `max_records` is no whole number above 0, or `timeout_ms` is negative.
            ClientClosedError: the consumer is closed.
            OttlaError: as for `async for`.
        """
        max_records = require_whole("max_records", max_records, 1, MAX_OFFSET)
        if timeout_ms is not None:
            require_duration("timeout_ms", timeout_ms)
        self._started()
        try:
            records = await self._reader.batch(max_records, timeout_ms)
        except OttlaError:
            self._group.on_raised()
            raise
        if records is None:
            raise ClientClosedError("the consumer is closed: make a new one")
        return records

    # Inside

    def _join(self, registration: Registration, listener: RebalanceListener) -> None:
        cluster = self._started()
        if self._membership is not None:
            raise NotInGroupError("the consumer has a subscription: make a new one for another")
        settings = self._settings
        self._group.listener = listener
        self._membership = membership = Membership(
            self._client,
            self._group,
            self._machine,
            group=settings.group_id,
            consumer=self.consumer_id,
            registration=registration,
            layout=settings.layout,
            strategy=settings.strategy,
            exclude_internal=self._exclude_internal,
            session_timeout_ms=settings.session_timeout_ms,
            now_ms=lambda: int(time.time() * 1000),
        )
        self._group.begin(self._store(cluster, membership), self._reader.wake)
        self._group.join(membership)
        look = warn_of_kafka_members(cluster, settings.group_id, self._request_timeout_ms / 1000)
        self._tasks.spawn(look, f"Kafka group {settings.group_id}")

    def _on_change(self) -> None:
        self._group.forget_commits(self._reading.on_metadata())

    def _store(self, cluster: Cluster, membership: Membership) -> OffsetStore:
        group = self._settings.group_id
        if not isinstance(self._offsets, str):
            return self._owned(self._offsets, membership)
        nodes = NodeStore(group, membership.offsets, self._naming, self._group.on_lost)
        if self._offsets == "znodes":
            return nodes
        kafka = GroupStore(
            group,
            KafkaStore(
                group_coordinator(cluster, group),
                group_instance_id=None,
                backoff=cluster.backoff,
                timeout_s=self._request_timeout_ms / 1000,
            ),
            membership.certain_session,
        )
        if self._offsets == "kafka":
            return self._owned(kafka, membership)
        # The nodes come first, since they refuse the offsets of partitions that have moved.
        return DualStore(nodes, kafka)

    def _owned(self, store: OffsetStore, membership: Membership) -> OffsetStore:
        group = self._settings.group_id
        return OwnedStore(group, store, membership.offsets, self._naming, self._group.on_lost)

    def _client_config(self) -> ClientConfig:
        return ClientConfig(
            bootstrap=self._bootstrap(),
            client_id=self._client_id,
            security=self._security,
            request_timeout_ms=self._request_timeout_ms,
        )

    def _bootstrap(self) -> tuple[Address, ...]:
        return tuple(self._addresses.addresses.values())

    def _on_addresses(self) -> None:
        if self._cluster is not None and self._addresses.addresses:
            self._cluster.bootstrap = self._bootstrap()
            self._cluster.request_refresh()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._addresses.refresh()

    def _started(self) -> Cluster:
        if self._cluster is None or self._is_closed:
            raise ClientClosedError(
                "the consumer is not running: use `async with ZooKeeperConsumer(...)`, and read "
                "before its end"
            )
        self._cluster.require_own_loop()
        return self._cluster


def _consumer_id(group: str, name: str | None) -> str:
    if name is None:
        host = socket.gethostname()
        return consumer_id(group, host, int(time.time() * 1000), secrets.randbits(64))
    if not name or "/" in name or not name.isprintable() or len(name) > MAX_CONSUMER_ID_CHARACTERS:
        raise ConfigurationError(f"consumer_id must be a printable name without '/', got {name!r}")
    return f"{group}_{name}"
