"""The client's access to the cluster: bootstrap, metadata, requests by broker (composition).

Owns the connection pool and the current `ClusterMetadata`. Metadata is refreshed when it is too
old, and when a caller found it wrong (`request_refresh`). Refreshes run in a task of the cluster,
one at a time, so cancelling one caller does not affect the others.
Invariant: after `close` no task and no socket is left.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from math import inf
from typing import Final, TypeVar

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, TopicPartition
from kafkawire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kafkawire.sentinels import NO_LEADER
from ottla.client.argument import require_topic
from ottla.client.background import Alarm, TaskSet
from ottla.client.client_config import Address, ClientConfig
from ottla.client.client_metrics import Health
from ottla.client.cluster_metadata import (
    NO_BROKERS,
    ClusterMetadata,
    TopicMetadata,
    merge,
    with_leader,
    without_topics,
)
from ottla.client.errors import (
    BrokerUnreachableError,
    ClientClosedError,
    ConnectionLostError,
    OttlaError,
    ProtocolError,
    RequestTimedOutError,
    UnknownTopicError,
    broker_error,
)
from ottla.client.network.broker_connection import Connection
from ottla.client.network.connection_pool import ConnectionPool, Purpose
from ottla.client.network.first_answer import first_answer
from ottla.client.request_parts import parts
from ottla.client.retry import Backoff

log = logging.getLogger(__name__)

R = TypeVar("R")

UNKNOWN_PATIENCE_S: Final = 1.0
"""Time for which an unknown topic is awaited: brokers learn of a new topic a moment later."""

MAX_TOPICS_PER_REQUEST: Final = 5_000
"""Number of topics that one request for metadata names: brokers limit the elements of a request."""

MAX_IMPATIENT_FAILURES: Final = 5
"""Number of failed attempts in a row to reach a broker that speed up metadata refreshes."""
FIRST_BOOTSTRAP_ID: Final = -2
"""Placeholder id of the first bootstrap address; the next have -3, -4, ... (-1: no leader)."""


class Cluster:
    """Metadata of the cluster and connections to its brokers. Call `close` after `start`."""

    def __init__(self, config: ClientConfig, *, allow_auto_topic_creation: bool = True) -> None:
        self.config = config
        self.bootstrap = config.bootstrap
        """Addresses to try after the addresses in the metadata; the owner may change them."""
        self.metadata = ClusterMetadata()
        self.backoff = Backoff(
            initial_s=config.retry_backoff_ms / 1000,
            max_s=config.retry_backoff_max_ms / 1000,
            random=random.random,
        )
        self.refresh_count = 0
        """Number of refreshes that have begun."""
        self.metadata_refresh = 0
        """Number of the refresh that brought `metadata`."""
        self.on_change: Callable[[], None] = _ignore
        """Callback of the owner, called when the metadata or a connection changed."""
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._wanted_topics: set[str] = set()
        self._awaited_topics: Counter[str] = Counter()
        """Number of calls that wait for a topic, by its name."""
        self._wants_all_topics = False
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskSet(self._loop)
        self._pool = ConnectionPool(
            config,
            Backoff(
                initial_s=config.reconnect_backoff_ms / 1000,
                max_s=config.reconnect_backoff_max_ms / 1000,
                random=random.random,
            ),
            on_open=lambda: self.on_change(),
            on_failure=self._on_connection_failure,
        )
        self._refresh_waiters: list[asyncio.Future[None]] = []
        self._is_refreshing = False
        self._refresh_failure_count = 0
        self._alarm = Alarm(self._loop, self._begin_refresh)
        self._refreshed_at_s = -inf
        self._known_at_s = -inf
        self._failure = "no metadata yet"
        self._is_closed = False

    async def start(self) -> None:
        """Fetch the first metadata; on failure everything is closed again.

        Raises:
            NoBrokerAvailableError: none of the bootstrap servers can be reached.
        """
        try:
            await self.refresh()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all connections and cancel all background tasks."""
        self._is_closed = True
        self._alarm.cancel()
        try:
            await self._tasks.cancel_all()
        finally:
            waiters, self._refresh_waiters = self._refresh_waiters, []
            _settle(waiters, ClientClosedError("the client was closed while it waited"))
            await self._pool.close()

    # Metadata

    def health(self) -> Health:
        """Return whether brokers can be reached: the last refresh of the metadata succeeded."""
        age_s = self._loop.time() - self._known_at_s
        failure = "the client is closed" if self._is_closed else self._failure
        return Health(not failure, failure, age_s, self._pool.open_count)

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Request the metadata of exactly `topics` in every later refresh."""
        self._wanted_topics = set(topics)

    def forget_topics(self, topics: Collection[str]) -> None:
        """Request the metadata of `topics` no longer, and drop it."""
        if topics:
            self._wanted_topics.difference_update(topics)
            self.metadata = without_topics(self.metadata, topics)

    def keep_all_topics(self, *, wanted: bool) -> None:
        """Request the metadata of all topics of the cluster in every later refresh, or stop it."""
        self._wants_all_topics = wanted

    @property
    def is_refreshing(self) -> bool:
        """Whether metadata is on its way, which may include topics that were forgotten since."""
        return self._is_refreshing

    async def refresh(self) -> ClusterMetadata:
        """Fetch metadata from a broker and return it; share a refresh that has not started yet.

        Raises:
            NoBrokerAvailableError: no known address could be reached.
            ClientClosedError: the cluster was closed.
        """
        if self._is_closed:
            raise ClientClosedError("the client is closed: make a new one")
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._refresh_waiters.append(waiter)
        self._begin_refresh()
        await waiter
        return self.metadata

    def request_refresh(self) -> None:
        """Request a refresh without waiting; `on_change` is called once it has arrived.

        During an election callers keep finding the same fault, so refreshes requested here are at
        least one back-off apart.
        """
        if self._is_closed or self._is_refreshing:
            return
        due_s = self._refreshed_at_s + self.backoff.delay_s(1)
        if due_s <= self._loop.time():
            self._begin_refresh()
        else:
            self._alarm.ring_by(due_s)

    async def topic(
        self, name: str, timeout_s: float, patience_s: float = UNKNOWN_PATIENCE_S
    ) -> TopicMetadata:
        """Return the metadata of topic `name` once it has partitions.

        Later refreshes include the topic.

        Raises:
            UnknownTopicError: the topic did not appear within `patience_s`.
            BrokerError: the broker refuses to describe the topic.
            NoBrokerAvailableError: no broker could be reached within `timeout_s`.
            ConfigurationError: the name is not a string, or empty.
            ClientClosedError: the caller runs in another event loop.
        """
        self.require_own_loop()
        require_topic(name)
        # Apart from the wanted topics: `keep_topics` does not end this wait, and the end of this
        # wait, also by a cancellation, leaves the wishes of others alone.
        self._awaited_topics[name] += 1
        try:
            held = await self._await_topic(name, timeout_s, patience_s)
        finally:
            self._awaited_topics[name] -= 1
            if self._awaited_topics[name] == 0:
                del self._awaited_topics[name]
        self._wanted_topics.add(name)
        return held

    async def _await_topic(self, name: str, timeout_s: float, patience_s: float) -> TopicMetadata:
        deadline_s = self._loop.time() + timeout_s
        patient_until_s = self._loop.time() + patience_s
        failure_count = 0
        while True:
            held = self.metadata.topics.get(name)
            if held is not None and held.partitions:
                return held
            error: OttlaError = broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")
            try:
                await self.refresh()
                held = self.metadata.topics.get(name)
                if held is not None and held.partitions:
                    return held
                if held is not None and held.error != ErrorCode.NONE:
                    error = broker_error(held.error, f"topic {name}")
            except OttlaError as failed:
                error = failed
            failure_count += 1
            delay_s = self.backoff.delay_s(failure_count)
            is_unknown = isinstance(error, UnknownTopicError)
            end_s = min(deadline_s, patient_until_s) if is_unknown else deadline_s
            if not error.retriable or self._loop.time() + delay_s > end_s:
                raise error
            await asyncio.sleep(delay_s)

    def require_own_loop(self) -> None:
        """Require that the caller runs in the event loop that the client was started in.

        Raises:
            ClientClosedError: it runs in another event loop.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise ClientClosedError(
                "the client belongs to another event loop: start and use it in the same asyncio.run"
            )

    def learn_leader(
        self,
        topic_partition: TopicPartition,
        leader: BrokerId,
        epoch: LeaderEpoch,
        named: Mapping[BrokerId, Address] = NO_BROKERS,
    ) -> bool:
        """Adopt the leader that a response names; return whether it was newer (KIP-951).

        `named` are the addresses in the response.
        """
        known = self.metadata
        self.metadata = with_leader(known, topic_partition, leader, epoch, named)
        return self.metadata is not known

    # Requests

    def ready_connection(self, broker_id: BrokerId, purpose: Purpose) -> Connection | None:
        """Return an open connection, or None and start to open one.

        `on_change` is called when the attempt has ended. While a broker cannot be reached, the
        metadata is refreshed: at first one back-off apart, to notice an election soon, and later
        after each failed attempt.
        """
        address = self.metadata.brokers.get(broker_id)
        if address is None or self._is_closed:
            return None
        connection = self._pool.ready(broker_id, purpose, address)
        if connection is None:
            self._pool.begin_open(broker_id, purpose, address)
            if 0 < self._pool.failure_count(broker_id) <= MAX_IMPATIENT_FAILURES:
                self.request_refresh()
        return connection

    def take_connection_errors(self) -> dict[tuple[BrokerId, Purpose], OttlaError]:
        """Return why connections of `ready_connection` could not be opened since the last call.

        Take them in each pass: an error is about the requests that waited for the connection, and
        a later request has the connection opened again.
        """
        return self._pool.take_errors()

    async def request(self, broker_id: BrokerId, message: object, response_type: type[R]) -> R:
        """Send `message` to one broker over its control connection and return the response.

        Raises:
            BrokerUnreachableError: the broker is not in the cluster, or cannot be reached.
            OttlaError: the request failed.
        """
        address = self.metadata.brokers.get(broker_id)
        if address is None:
            raise BrokerUnreachableError(
                f"broker {broker_id} is not in the cluster now: wait for it to come back"
            )
        connection = await self._pool.get(broker_id, Purpose.CONTROL, address)
        return await connection.request(message, response_type)

    async def request_at(
        self,
        broker_id: BrokerId,
        address: Address,
        message: object,
        response_type: type[R],
        *,
        purpose: Purpose = Purpose.CONTROL,
        timeout_s: float | None = None,
    ) -> R:
        """Send `message` to a broker at an address that need not be in the metadata (yet)."""
        connection = await self._pool.get(broker_id, purpose, address)
        return await connection.request(message, response_type, timeout_s=timeout_s)

    async def request_any(
        self, message: object, response_type: type[R], *, may_repeat: bool = False
    ) -> R:
        """Send `message` to any reachable broker and return the response.

        While a broker does not accept the connection, another one is tried. A request that
        `may_repeat`, such as a read, is also sent to another broker while the first does not
        answer, and after its connection was lost; any other request is sent once.

        Raises:
            NoBrokerAvailableError: none of them can be reached. Without `may_repeat`, nothing
                was sent.
            OttlaError: the request failed.
        """
        addresses = self._addresses()

        async def attempt(broker_id: BrokerId, address: Address) -> R:
            connection = await self._connect(broker_id, address)
            return await connection.request(message, response_type)

        if may_repeat:
            return await first_answer([partial(attempt, *it) for it in addresses], _may_try_next)
        reach = [partial(self._connect, *it) for it in addresses]
        connection = await first_answer(reach, _may_try_next)
        return await connection.request(message, response_type)

    async def request_controller(self, message: object, response_type: type[R]) -> R:
        """Send `message` to the controller, or to any broker while no controller is known."""
        controller_id = self.metadata.controller_id
        if controller_id == NO_LEADER or controller_id not in self.metadata.brokers:
            return await self.request_any(message, response_type)
        return await self.request(controller_id, message, response_type)

    def spawn(self, work: Coroutine[object, object, object], name: str) -> None:
        """Run `work` in the background until it ends or the cluster is closed."""
        if self._is_closed:
            work.close()
        else:
            self._tasks.spawn(work, name)

    # Inside

    async def _connect(self, broker_id: BrokerId, address: Address) -> Connection:
        try:
            return await self._pool.get(broker_id, Purpose.CONTROL, address)
        except asyncio.CancelledError:
            # Another broker has answered. Attempts at brokers in the metadata continue, because
            # their failures are counted.
            if broker_id <= FIRST_BOOTSTRAP_ID:
                self._pool.abandon(broker_id, Purpose.CONTROL)
            raise

    def _addresses(self) -> list[tuple[BrokerId, Address]]:
        """Return all addresses: brokers with an open connection, other brokers, bootstrap.

        Brokers that could not be reached come after the others of their kind.
        """
        known = list(self.metadata.brokers.items())
        random.shuffle(known)
        known.sort(key=self._reluctance)
        bootstrap = [
            (BrokerId(FIRST_BOOTSTRAP_ID - index), address)
            for index, address in enumerate(self.bootstrap)
        ]
        random.shuffle(bootstrap)
        return known + bootstrap

    def _reluctance(self, entry: tuple[BrokerId, Address]) -> tuple[bool, int]:
        broker_id, address = entry
        is_unconnected = self._pool.ready(broker_id, Purpose.CONTROL, address) is None
        return is_unconnected, self._pool.failure_count(broker_id)

    def _on_connection_failure(self) -> None:
        # The broker may be gone, and other brokers may lead its partitions.
        self.request_refresh()
        self.on_change()

    def _begin_refresh(self) -> None:
        if not self._is_refreshing and not self._is_closed:
            self._is_refreshing = True
            self._tasks.spawn(self._refresh(), "refresh metadata")

    async def _refresh(self) -> None:
        # Later callers wait for the next refresh: they may want a topic that this one lacks.
        waiters, self._refresh_waiters = self._refresh_waiters, []
        self.refresh_count += 1
        failure: OttlaError | None = ClientClosedError("the client was closed while it waited")
        try:
            is_complete = self._wants_all_topics
            awaited = set(self._awaited_topics)
            for request in self._metadata_requests():
                response = await self.request_any(request, MetadataResponse, may_repeat=True)
                if not response.brokers and self.metadata.brokers:
                    # Of a Kafka broker that has just started: it knows no topic either. The Java
                    # client asks again, too (NetworkClient).
                    raise broker_error(
                        ErrorCode.LEADER_NOT_AVAILABLE, "metadata", "the broker has none yet"
                    )
                self.metadata = merge(
                    self.metadata, response, self._named_topics(), is_complete=is_complete
                )
                self._want_found(awaited)
            # Only one refresh runs at a time.
            self.metadata_refresh = self.refresh_count
            failure = None
        except OttlaError as error:
            failure = error
        finally:
            self._is_refreshing = False
            _settle(waiters, failure)
        self._after_refresh(failure)

    def _after_refresh(self, failure: OttlaError | None) -> None:
        if self._is_closed:
            return
        self._refreshed_at_s = self._loop.time()
        self._failure = "" if failure is None else str(failure)
        if failure is None:
            self._known_at_s = self._refreshed_at_s
            self._refresh_failure_count = 0
            delay_s = self.config.metadata_max_age_ms / 1000
        else:
            log.warning("metadata.refresh_failed error=%s", failure)
            self._refresh_failure_count += 1
            delay_s = self.backoff.delay_s(self._refresh_failure_count)
        self._alarm.cancel()
        self._alarm.ring_by(self._refreshed_at_s + delay_s)
        self.on_change()
        if self._refresh_waiters:
            self._begin_refresh()

    def _want_found(self, awaited: Iterable[str]) -> None:
        """Want the topics that were found, even if the calls that waited for them are cancelled.

        A producer adopts every topic of the metadata, and then does not wait for it again.
        """
        topics = self.metadata.topics
        self._wanted_topics.update(
            name for name in awaited if (held := topics.get(name)) is not None and held.partitions
        )

    def _named_topics(self) -> set[str]:
        return self._wanted_topics | self._awaited_topics.keys()

    def _metadata_requests(self) -> list[MetadataRequest]:
        if self._wants_all_topics:
            return [MetadataRequest(topics=None, allow_auto_topic_creation=False)]
        # Without topics one request remains, for the brokers.
        named = list(parts(sorted(self._named_topics()), MAX_TOPICS_PER_REQUEST)) or [[]]
        return [
            MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in part],
                allow_auto_topic_creation=self._allow_auto_topic_creation,
            )
            for part in named
        ]


def _settle(waiters: list[asyncio.Future[None]], failure: OttlaError | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if failure is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(failure)


def _may_try_next(error: OttlaError) -> bool:
    """Whether the connection to one broker failed, so that another broker may succeed."""
    return isinstance(error, ConnectionLostError | RequestTimedOutError | ProtocolError)


def _ignore() -> None:
    pass
