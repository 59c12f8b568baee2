"""A producer that finds brokers and partitions in the coordinator (composition)."""

import asyncio
import logging
import random
from pathlib import Path
from typing import Any, Final, Self

from coordination.client import Client, SessionState
from coordination.errors import OperationError
from kafkawire.errors import ErrorCode
from ottla.client.background import TaskSet
from ottla.client.client_config import ClientConfig
from ottla.client.errors import (
    ClientClosedError,
    ConfigurationError,
    NoBrokerAvailableError,
    UnknownPartitionError,
    broker_error,
)
from ottla.client.network.cluster import UNKNOWN_PATIENCE_S, Cluster
from ottla.client.producer.producer import Producer
from ottla.client.producer.producer_batch import Delivery
from ottla.client.record import Headers
from ottla.client.security import security_of
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.broker_addresses import PLAINTEXT, BrokerAddresses
from ottla.zookeeper.login import load_login
from ottla.zookeeper.naming import JafkaNaming, KafkaNaming, Naming
from ottla.zookeeper.refusal import reason_of
from ottla.zookeeper.registration import Layout
from ottla.zookeeper.settings import DEFAULT_SESSION_TIMEOUT_MS, parse_layout
from ottla.zookeeper.targets import choose
from ottla.zookeeper.topic_targets import TopicTargets

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 30.0
RECONNECT_DELAY_S: Final = 0.5
RETRY_S: Final = 0.1
"""Delay before a record is sent again to a partition that a broker does not know yet."""


class ZooKeeperProducer:
    """Sends records to brokers that it finds in the coordinator, as Jafka's producer does.

        async with ZooKeeperProducer("zk1:2181/kafka") as producer:
            await producer.send("orders", b"value", key=b"customer")

    The targets of a topic are its partitions on live brokers. A record without a key goes to any of
    them by chance, one with a key to the one of its hash. New brokers and partitions are used at
    once, and none of a broker whose node has gone. Records are acknowledged and retried as by
    `ottla.Producer`.
    """

    def __init__(
        self,
        coordinator: str,
        *,
        layout: str = "kafka",
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        coordinator_login: Path | str | None = None,
        **options: Any,
    ) -> None:
        """Configure the producer; `start` or `async with` connects it.

        Args:
            coordinator: Addresses of the coordinator, and the chroot: "host:port,host:port/chroot".
            layout: Form of the nodes: "kafka" (0.8 and newer) or "jafka" (Jafka, Kafka 0.7).
            session_timeout_ms: Time without contact after which everything is read again.
            coordinator_login: File with a login at the coordinator, read once: a Java login
                configuration with a section `Client`, as `ottla up` keeps one in its directory.
            **options: Settings of `ottla.Producer`, without `bootstrap_servers`.

        Raises:
            ConfigurationError: a setting is out of range; the message has its value and limits.
        """
        self._layout = parse_layout(layout)
        login = load_login(coordinator_login)
        try:
            self._client = Client(coordinator, session_timeout_ms=session_timeout_ms, login=login)
        except ValueError as error:
            raise ConfigurationError(f"coordinator: {error}") from error
        if "bootstrap_servers" in options:
            raise ConfigurationError("the coordinator lists the brokers: omit bootstrap_servers")
        self._options = options
        protocol = options.get("security_protocol", PLAINTEXT)
        self._addresses = BrokerAddresses(self._client, self._layout, protocol)
        self._targets = TopicTargets(
            self._client, self._layout, lambda: sorted(self._addresses.addresses)
        )
        self._naming: Naming = KafkaNaming()
        self._producer: Producer | None = None
        self._cluster: Cluster | None = None
        self._is_closed = False
        self._session_ended = asyncio.Event()
        self._tasks: TaskSet

    async def start(self) -> None:
        """Connect to the coordinator, and to a broker that it lists. `async with` calls this.

        Raises:
            NoBrokerAvailableError: the coordinator cannot be reached, or lists no broker.
            ClientClosedError: the producer was started or closed before; create a new one.
        """
        if self._producer is not None or self._is_closed:
            raise ClientClosedError("a producer starts once: make a new one")
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
        try:
            if self._is_closed:
                raise ClientClosedError("the producer was closed while it started")
            if not has_brokers:
                raise NoBrokerAvailableError("the coordinator lists no suitable broker")
            self._producer = Producer(self._bootstrap(), **self._options)
            await self._producer.start()
            if self._layout is Layout.JAFKA:
                await self._read_names()
        except BaseException:
            await self._end()
            raise
        self._tasks = TaskSet(asyncio.get_running_loop())
        self._addresses.on_change = self._on_addresses
        self._client.on_state_change(self._on_state)
        if self._client.state is SessionState.EXPIRED:
            # The session ended while the brokers were awaited.
            self._session_ended.set()
        self._tasks.spawn(self._addresses.follow(), "broker addresses")
        self._tasks.spawn(self._keep_session(), "coordinator session")

    async def _read_names(self) -> None:
        security = {
            name: value
            for name, value in self._options.items()
            if name.startswith(("security_", "ssl_", "sasl_"))
        }
        config = ClientConfig(
            bootstrap=tuple(self._addresses.addresses.values()), security=security_of(**security)
        )
        self._cluster = Cluster(config, allow_auto_topic_creation=False)
        await self._cluster.start()
        self._naming = JafkaNaming(self._cluster, config.request_timeout_ms / 1000)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send the remaining records and disconnect. `async with` calls this."""
        self._is_closed = True
        await self._end()

    async def _end(self) -> None:
        if hasattr(self, "_tasks"):
            await self._tasks.cancel_all()
        try:
            if self._producer is not None:
                await self._producer.close()
        finally:
            if self._cluster is not None:
                await self._cluster.close()
            await self._client.close()

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Accept one record; return a future of its partition, offset and timestamp.

        Raises:
            ConfigurationError: no topic can have this name.
            UnknownTopicError: no live broker has a partition of the topic.
            OttlaError: as `Producer.send`.
        """
        if self._producer is None or self._is_closed:
            raise ClientClosedError("the producer is not running: use `async with`")
        partition = await self._partition(topic, key)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + UNKNOWN_PATIENCE_S
        while True:
            try:
                return await self._producer.send(
                    topic,
                    value,
                    key=key,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                )
            except UnknownPartitionError:
                # The coordinator lists the partition: some broker learns of it a moment later.
                if loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(RETRY_S)

    async def flush(self) -> None:
        """Wait until every accepted record is acknowledged or has failed."""
        if self._producer is not None:
            await self._producer.flush()

    # Inside

    async def _partition(self, topic: str, key: bytes | None) -> int:
        try:
            targets = await self._targets.targets(topic)
        except OperationError as error:
            reason = reason_of(error, self._client.failure)
            raise NoBrokerAvailableError(f"the coordinator cannot be read: {reason}") from error
        if not targets:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic}")
        slot = Slot(topic, choose(targets, key, random.randrange).name)
        partition = self._naming.partition(slot)
        if partition is None:
            await self._naming.load([slot])
            partition = self._naming.partition(slot)
        if partition is None:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} {slot.name}")
        return partition.partition

    def _bootstrap(self) -> list[str]:
        return [str(address) for address in self._addresses.addresses.values()]

    def _on_addresses(self) -> None:
        self._targets.forget()
        if self._producer is not None and self._addresses.addresses:
            self._producer.use_bootstrap(self._bootstrap())

    def _on_state(self, state: SessionState) -> None:
        match state:
            case SessionState.CONNECTED:
                self._targets.forget()
                self._addresses.refresh()
            case SessionState.EXPIRED:
                self._session_ended.set()

    async def _keep_session(self) -> None:
        """Begin a session whenever the last one has ended; never returns."""
        while True:
            await self._session_ended.wait()
            self._session_ended.clear()
            # An attempt to connect that times out leaves the client CLOSED.
            while self._client.state in (SessionState.EXPIRED, SessionState.CLOSED):
                try:
                    await self._client.connect(CONNECT_TIMEOUT_S)
                except OperationError as error:
                    log.warning("producer.cannot_connect error=%s", error)
                    await asyncio.sleep(RECONNECT_DELAY_S)
