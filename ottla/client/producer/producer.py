"""The public producer (composition).

It combines accumulator, sender and cluster.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from time import time_ns
from typing import Any, Final, NoReturn, Self, TypeAlias, Unpack

from kafkawire.ids import TopicPartition
from kafkawire.records_loops import MAX_TIMESTAMP_MS
from kafkawire.units import KIB, MIB
from ottla.client.argument import (
    MAX_INT32,
    record_mistake,
    require_duration,
    require_topic,
    require_whole,
)
from ottla.client.background import Closing
from ottla.client.client_config import (
    Acks,
    ClientConfig,
    ProducerConfig,
    parse_acks,
    parse_bootstrap,
    parse_compression,
)
from ottla.client.client_metrics import Health, producer_metrics
from ottla.client.errors import (
    BufferFullError,
    ClientClosedError,
    ConfigurationError,
    OttlaError,
    RecordTooLargeError,
    TransactionStateError,
    UnknownPartitionError,
)
from ottla.client.interceptor import ProducerInterceptor, ProducerRecord
from ottla.client.network.cluster import Cluster
from ottla.client.offset import CommittedOffset, GroupMetadata, parse_commit
from ottla.client.producer.accumulator import Accumulator, Need
from ottla.client.producer.memory_gate import MemoryGate
from ottla.client.producer.producer_batch import Delivery, max_batch_size
from ottla.client.producer.record_hooks import Partitioner, RecordHooks, make_hooks
from ottla.client.producer.sender import Sender
from ottla.client.producer.transaction_state import TransactionState
from ottla.client.producer.transactions import Transactions
from ottla.client.record import BytesLike, Headers, RecordMetadata, UnsentRecord
from ottla.client.security import SecurityOptions, security_of
from ottla.client.serialization import Serializer

NANOSECONDS_PER_MS: Final = 1_000_000
CANCELLED_CLOSE_MS: Final = 1_000
"""Time to send the accepted records when the block is cancelled, or ended by Ctrl-C."""
TURN_BYTES: Final = 64 * KIB
"""Number of bytes sent without waiting after which other tasks get a turn."""
TOPIC_IDLE_S: Final = 300.0
"""A topic without records for this time, or up to twice as long, is forgotten.

Not one that is used by `send_nowait`, which cannot wait for metadata.
Kafka: metadata.max.idle.ms.
"""


_Append: TypeAlias = Callable[
    [str, BytesLike | None, BytesLike | None, int | None, int, Headers], Delivery | None
]


class Producer:
    """Writes records to topics.

        async with Producer("localhost:9092", linger_ms=5, compression="lz4") as producer:
            delivery = await producer.send("orders", b"{...}", key=b"customer-7")
            metadata = await delivery
            print(metadata.partition, metadata.offset)

    Leaving the `async with` block sends all accepted records before it disconnects.

    Order: records of one partition are written in the order in which `send` accepts them, also
    across retries. A task that awaits each `send` before the next keeps its order; of calls that
    wait at the same time, a later one may be accepted first.

    Durability: with acks="all" (the default), a successful delivery is on every in-sync replica.
    A record that is not acknowledged within `delivery_timeout_ms` fails, and the future of its
    delivery raises.

    Duplicates: with `enable_idempotence`, the default unless other settings forbid it, a batch
    that is retried is written once. Without it a retry may write the batch twice.

    Memory: accepted records take at most `buffer_memory_bytes`; when they are full, `send` waits.

    An instance belongs to one event loop; any number of tasks of that loop may send.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        acks: Acks = "all",
        linger_ms: float = 0,
        batch_size_bytes: int = 16 * KIB,
        compression: str | None = None,
        compression_level: int | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        buffer_memory_bytes: int = 32 * MIB,
        max_request_bytes: int = MIB,
        max_in_flight: int = 5,
        max_block_ms: int = 60_000,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        retries: int = MAX_INT32,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        adaptive_partitioning: bool = True,
        enable_idempotence: bool | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        client_id: str = "ottla",
        **security: Unpack[SecurityOptions],
    ) -> None:
        """Configure the producer; `start` or `async with` connects it.

        Args:
            bootstrap_servers: Addresses to find the cluster with: "host:port,host:port" or a
                sequence of "host:port". The port defaults to 9092.
            acks: Acknowledgements to wait for: "all" in-sync replicas, 1 for the leader only,
                0 for none (then offsets are unknown, and lost records are not reported).
            linger_ms: Time for which a batch waits for more records before it is sent.
            batch_size_bytes: Size at which a batch is sent without lingering, at the next turn of
                the event loop. Until then, or while it waits for the batch before it, it may grow
                up to 16 times this size, within `max_request_bytes`.
            compression: "gzip", "snappy", "lz4" or "zstd"; None for no compression.
            compression_level: Level of "gzip" (1 to 9), "lz4" (1 to 17) or "zstd" (up to 22);
                None for the default of Kafka's producers.
            key_serializer: Turns the keys given to `send` into bytes: a plain or async function of
                one value, or an object with `serialize(topic, value)`; see
                `ottla.client.serialization`.
            value_serializer: The same for values.
            partitioner: Function of the key's bytes, all partitions and the ones with a leader; it
                returns the partition of a record sent without one.
            interceptors: See every record before it is serialized, and its outcome.
            buffer_memory_bytes: Limit of the memory for records that are not acknowledged yet.
            max_request_bytes: Limit of one request, and so of one record.
            max_in_flight: Limit of unacknowledged requests per broker; a partition has at most
                one batch in flight.
            max_block_ms: Time for which `send` waits for memory, or for a topic to exist, and the
                methods of transactions for an answer.
            request_timeout_ms: Time limit of one request.
            delivery_timeout_ms: Time limit from `send` to the acknowledgement, retries included;
                also that of a request with records if it is below `request_timeout_ms`.
            retries: Limit of retries per batch.
            retry_backoff_ms: Delay before the first retry. It doubles with each further retry.
            retry_backoff_max_ms: Upper limit of that delay.
            metadata_max_age_ms: Interval at which metadata is refreshed even without errors.
            adaptive_partitioning: For records without a key, prefer partitions with shorter
                queues (KIP-794).
            enable_idempotence: Number the batches, so that brokers discard duplicates. Needs
                acks="all", retries, and `max_in_flight` of 5 or less; None enables it if these
                settings allow it.
            transactional_id: Name under which transactions are written; it makes `start` fence
                older producers of the same name. Every record then belongs to a transaction.
            transaction_timeout_ms: Time from the first record of a transaction after which the
                cluster aborts it and fences this producer.
            client_id: Name of this client in the logs and quotas of the brokers.
            **security: TLS and authentication, under the names of aiokafka; see
                `ottla.client.security.SecurityOptions`.

        Raises:
            ConfigurationError: a setting is out of range, or contradicts `enable_idempotence`;
                the message has its value and limits.
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
        config = ProducerConfig(
            acks=parse_acks(acks),
            linger_ms=linger_ms,
            batch_size_bytes=batch_size_bytes,
            codec=parse_compression(compression),
            compression_level=compression_level,
            buffer_memory_bytes=buffer_memory_bytes,
            max_request_bytes=max_request_bytes,
            max_in_flight=max_in_flight,
            max_block_ms=max_block_ms,
            retries=retries,
            delivery_timeout_ms=delivery_timeout_ms,
            adaptive_partitioning=adaptive_partitioning,
            enable_idempotence=False if enable_idempotence is None else enable_idempotence,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        if enable_idempotence is None and config.obstacle_to_idempotence is None:
            config = replace(config, enable_idempotence=True)
        if transactional_id is not None:
            config = replace(config, transactional_id=transactional_id)
        self._config = config
        self._max_batch_bytes = min(max_request_bytes, buffer_memory_bytes)
        self._hooks: RecordHooks | None = make_hooks(
            key_serializer, value_serializer, partitioner, interceptors
        )
        self._append: _Append = _refuse
        self._accept: _Append = _defer
        self._cluster: Cluster | None = None
        self._sender: Sender
        self._accumulator: Accumulator
        self._turn_bytes = 0
        """Number of bytes reserved since the last turn of other tasks."""
        self._forget_at_s = 0.0
        """When the topics that were not used since are forgotten."""
        self._gate: MemoryGate
        self._closing = Closing()
        self._transactions: Transactions | None = None

    async def start(self) -> None:
        """Connect to the cluster. `async with` calls this.

        Raises:
            NoBrokerAvailableError: no bootstrap server can be reached; check the addresses.
            ClientClosedError: the producer was started or closed before; create a new one.
            TransactionTimedOutError: the transactional id got no answer within `max_block_ms`.
            BrokerError: the transactional id or its timeout is refused; the message has the reason.
        """
        if self._cluster is not None or self._closing.has_begun:
            raise ClientClosedError("a producer starts once: make a new one")
        loop = asyncio.get_running_loop()
        self._cluster = cluster = Cluster(self._client_config)
        # Not loop.create_future, which is a slower Python function in asyncio's own loop.
        new_delivery = partial(asyncio.Future, loop=loop)
        self._accumulator = Accumulator(self._config, new_delivery, random.randrange)
        if self._hooks is None:
            self._accept = self._accumulator.append
        self._gate = MemoryGate(self._accumulator.budget)
        self._sender = Sender(cluster, self._accumulator, self._config)
        await cluster.start()
        if self._closing.has_begun:
            raise ClientClosedError("the producer was closed while it started")
        self._forget_at_s = loop.time() + TOPIC_IDLE_S
        cluster.on_change = self._on_cluster_change
        if self._config.transactional_id is not None:
            await self._start_transactions(cluster, self._config.transactional_id)
            return
        # An idempotent sender requests its producer id before there is anything to send.
        self._sender.wake()
        self._append = self._accept

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A cancelled task, or a script after Ctrl-C, should end soon, not after the delivery
        # timeout of a dead broker. After sys.exit the records still have to be sent.
        interrupts = asyncio.CancelledError, KeyboardInterrupt
        is_cancelled = kind is not None and issubclass(kind, interrupts)
        await self.close(timeout_ms=CANCELLED_CLOSE_MS if is_cancelled else None)

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Accept one record; return a future of its partition, offset and timestamp.

        `send` itself waits only for memory, for the topic to exist or, about once per batch, for
        one turn of the event loop. Cancelling it while it waits discards the record.

        Await the returned future for the acknowledgement. It raises DeliveryTimedOutError if the
        outcome is unknown, or the BrokerError that refused the record. Cancelling the future does
        not cancel the record.

            deliveries = [await producer.send("numbers", b"%d" % n) for n in range(1_000)]
            await asyncio.gather(*deliveries)

        Args:
            topic: Name of the topic. It is created if the brokers create topics automatically.
            value: Bytes of the record, or input of the `value_serializer`; None is a tombstone in a
                compacted topic.
            key: Records with the same key go to the same partition, chosen as in every Kafka
                client (murmur2). Records without a key are spread over all partitions, a batch
                at a time.
            partition: Partition to write to, instead of the one that the key would choose.
            timestamp_ms: Time of the record in ms since the epoch, now by default.
            headers: Pairs of a name (str) and a value (bytes or None).

        Raises:
            RecordTooLargeError: the record exceeds `max_request_bytes` or `buffer_memory_bytes`.
            BufferFullError: no memory became free within `max_block_ms`: the brokers are slower
                than this producer. Raise `buffer_memory_bytes`, or send less.
            UnknownTopicError: the topic did not exist within `max_block_ms`.
            UnknownPartitionError: the topic has no such partition.
            TypeError: key, value or a header is neither bytes nor None; use `.encode()`.
            SerializationError: a serializer raised.
            ConfigurationError: the name of the topic is empty or not a string, the partition no
                number, or the timestamp no whole number of up to 64 bits (also a ValueError).
            ValueError: the key of a header has no encoding in UTF-8.
            ClientClosedError: the producer was not started, or is closed.
        """
        if timestamp_ms is None:
            timestamp_ms = time_ns() // NANOSECONDS_PER_MS
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= MAX_TIMESTAMP_MS:
            timestamp_ms = require_whole("timestamp_ms", timestamp_ms, 0, MAX_TIMESTAMP_MS)
        if partition is not None and type(partition) is not int:
            partition = require_whole("partition", partition, 0)
        try:
            delivery = self._append(topic, value, key, partition, timestamp_ms, headers)
            if delivery is not None:
                return delivery
            record = UnsentRecord(topic, value, key, partition, timestamp_ms, headers)
            return await self._send(record)
        except (AttributeError, TypeError, ValueError) as error:
            self._explain(error, topic, value, key, headers)
            raise

    def _explain(
        self, error: Exception, topic: str, value: Any, key: Any, headers: Headers
    ) -> None:
        """Raise the mistake in a record that was not accepted, if there is one."""
        if isinstance(error, OttlaError):
            return
        require_topic(topic)
        if self._hooks is None:
            mistake = record_mistake(value, key, headers)
            if mistake is not None:
                raise mistake from error

    def send_nowait(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Accept one record without waiting; otherwise as `send`.

        The topic must be known already, through an earlier `send` or `partitions`. One that is used
        by `send` only is forgotten if it gets no record for five minutes.

        Raises:
            BufferFullError: no memory is free, or the topic is not known; `await send(...)`.
            RecordTooLargeError, UnknownPartitionError, TypeError, ValueError, ClientClosedError:
                as for `send`.
        """
        if timestamp_ms is None:
            timestamp_ms = time_ns() // NANOSECONDS_PER_MS
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= MAX_TIMESTAMP_MS:
            timestamp_ms = require_whole("timestamp_ms", timestamp_ms, 0, MAX_TIMESTAMP_MS)
        if partition is not None and type(partition) is not int:
            partition = require_whole("partition", partition, 0)
        try:
            delivery = self._append(topic, value, key, partition, timestamp_ms, headers)
            if delivery is not None:
                # Later calls could not wait for its metadata.
                self._accumulator.keep(topic)
                return delivery
            record = UnsentRecord(topic, value, key, partition, timestamp_ms, headers)
            if self._hooks is not None:
                return self._send_hooked_now(self._hooks, record)
            return self._place_now(record)
        except (AttributeError, TypeError, ValueError) as error:
            self._explain(error, topic, value, key, headers)
            raise

    def _place_now(self, record: UnsentRecord) -> Delivery:
        need, wanted_bytes = self._need(record), self._wanted_bytes(record)
        if need is Need.MEMORY:
            # Later calls could not wait for its metadata either.
            self._accumulator.keep(record.topic)
            if self._accumulator.budget.try_reserve(wanted_bytes):
                return self._take_in(record, wanted_bytes, self._transaction_number())
        if need is Need.PARTITION:
            raise _unknown_partition(record)
        if need is Need.TOPIC:
            require_topic(record.topic)
        reason = "no memory is free"
        if need is not Need.MEMORY:
            reason = f"{record.topic} was not sent to before, or is forgotten"
        raise BufferFullError(f"send_nowait: {reason}; use `await send(...)`, which waits")

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Send one record and wait for its acknowledgement; return where it was written.

        A round trip per record: to write many records, use `send` and await the futures later.

        Raises:
            OttlaError: as for `send`, or the error of the delivery.
        """
        return await (
            await self.send(
                topic,
                value,
                key=key,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
            )
        )

    async def flush(self) -> None:
        """Send all accepted records without lingering, and wait for their deliveries.

        This returns when each of them is acknowledged or has failed, and the callbacks of their
        futures have run. It raises no delivery error: the future of each record has its own
        outcome.

        Raises:
            ClientClosedError: the producer was not started.
        """
        self._started().require_own_loop()
        accumulator = self._accumulator
        batches = [batch for batch in accumulator.incomplete if not batch.is_done]
        if not batches:
            # Callbacks of the last ones may be scheduled.
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = len(batches)

        def on_done() -> None:
            nonlocal left
            left -= 1
            if left == 0 and not waiter.done():
                waiter.set_result(None)

        for batch in batches:
            batch.on_done.append(on_done)
        accumulator.flush_count += 1
        self._sender.wake()
        try:
            await waiter
        finally:
            accumulator.flush_count -= 1

    # Transactions

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return a block whose records become visible together, or not at all.

            async with producer.transaction():
                await producer.send("orders", b"{...}", key=b"customer-7")
                await producer.send("audit", b"{...}")

        The end of the block waits for the acknowledgement of all records and commits. If the block
        raises or is cancelled, the transaction is aborted. Then consumers with
        isolation_level="read_committed" see none of its records.

        Raises:
            TransactionAbortableError: a record was not written; the transaction was aborted. Run
                the block again.
            TransactionTimedOutError: the commit has no answer; call `commit_transaction`.
            ProducerFencedError: another producer uses the transactional id; close this one.
            TransactionFatalError: close this producer, and make a new one.
            TransactionStateError: another transaction is open.
        """
        return self._started_transactions().transaction()

    async def begin_transaction(self) -> None:
        """Begin a transaction; `transaction` is the shorter way.

        If the last transaction left requests without answers, this first requests a new epoch.

        Raises:
            TransactionError: as for `transaction`.
        """
        await self._started_transactions().begin()

    async def commit_transaction(self) -> None:
        """Wait for the acknowledgement of all records, then commit the transaction.

        When this returns, the transaction is committed. Cancelling it while records are on the way
        leaves the transaction open. Once the commit was requested, its outcome is open after a
        cancellation or TransactionTimedOutError: call this again until it is known.

        Raises:
            TransactionAbortableError: a record was not written; call `abort_transaction`.
            TransactionError: as for `transaction`; `may_be_committed` says whether the outcome is
                unknown.
        """
        await self._started_transactions().commit()

    async def abort_transaction(self) -> None:
        """Drop the records that were not sent, and abort the transaction.

        The futures of dropped records raise RecordAbortedError. If it is cancelled or raises
        TransactionTimedOutError, call it again.

        Raises:
            TransactionError: as for `transaction`.
        """
        await self._started_transactions().abort()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        group: GroupMetadata | str,
    ) -> None:
        """Commit offsets of a consumer group with the open transaction.

        Args:
            offsets: Offsets of the next records to read, as for `Consumer.commit`.
            group: `consumer.group_metadata()`, so that the commit is refused if the partitions may
                belong to another member; or only the name of the group, without that protection.

        Raises:
            TransactionAbortableError: the consumer is no longer a member, or the outcome is
                unknown; abort the transaction, and read again from the committed offsets.
            ValueError: an offset is negative.
            TransactionError: as for `transaction`.
        """
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await self._started_transactions().send_offsets(parse_commit(offsets), metadata)

    async def partitions(self, topic: str) -> list[int]:
        """Return the partition numbers of `topic`, in ascending order; `send_nowait` may follow.

        Raises:
            UnknownTopicError: the topic does not exist.
        """
        metadata = await self._started().topic(topic, self._config.max_block_ms / 1000)
        self._accumulator.on_topic(metadata)
        self._accumulator.keep(metadata.name)
        return sorted(metadata.partitions)

    def metrics(self) -> dict[str, float]:
        """Return counters and sizes by the names of Kafka's producer, such as "record-send-total".

        Raises:
            ClientClosedError: the producer was not started.
        """
        health = self.health()
        return producer_metrics(
            self._sender.counts,
            buffer_total_bytes=self._config.buffer_memory_bytes,
            buffer_free_bytes=self._accumulator.budget.free_bytes,
            health=health,
        )

    def health(self) -> Health:
        """Return whether brokers can be reached.

        Raises:
            ClientClosedError: the producer was not started.
        """
        return self._started().health()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send the accepted records, then disconnect. `async with` calls this.

        An open transaction is aborted instead. No record is accepted from now on. A record that is
        not acknowledged within `timeout_ms` (None: `delivery_timeout_ms`), or when this call is
        cancelled, is given up: its future raises ClientClosedError, although the record may be in
        the log. Of several calls the earliest limit counts.

        Raises:
            ValueError: `timeout_ms` is negative; the producer is still open.
        """
        if timeout_ms is not None:
            require_duration("timeout_ms", timeout_ms)
        if self._cluster is not None:
            self._cluster.require_own_loop()
        self._append = _refuse
        if self._cluster is None:
            # There is nothing to close, but `start` refuses from now on.
            if self._closing.begin():
                self._closing.end()
            return
        timeout_ms = self._config.delivery_timeout_ms if timeout_ms is None else timeout_ms
        if not self._closing.begin():
            await self._closing.wait(timeout_ms / 1000)
            # If the other call has a later limit, it ends once nothing is left to send.
            self._sender.stop(_given_up())
            return
        try:
            self._gate.close(ClientClosedError("the producer was closed"))
            async with asyncio.timeout(timeout_ms / 1000):
                if self._transactions is not None:
                    await self._transactions.close()
                else:
                    await self.flush()
        except TimeoutError:
            pass
        finally:
            self._sender.stop(_given_up())
            try:
                await self._cluster.close()
            finally:
                self._closing.end()

    def use_bootstrap(self, bootstrap_servers: str | Sequence[str]) -> None:
        """Replace the addresses that are tried after the addresses in the metadata.

        Raises:
            ConfigurationError: an address is malformed, or there is none.
            ClientClosedError: the producer was not started, or is closed.
        """
        addresses = parse_bootstrap(bootstrap_servers)
        if not addresses:
            raise ConfigurationError("bootstrap_servers is empty: give at least one host:port")
        cluster = self._started()
        cluster.bootstrap = addresses
        cluster.request_refresh()

    # Work per batch

    async def _send(self, record: UnsentRecord) -> Delivery:
        if self._hooks is None:
            return await self._place(record, self._transaction_number(), self._deadline_s())
        return await self._send_hooked(self._hooks, ProducerRecord._make(record))

    async def _send_hooked(self, hooks: RecordHooks, record: ProducerRecord) -> Delivery:
        """Send a record through interceptors, serializers and the partitioner."""
        # Before the first wait: the record belongs to the transaction of the call.
        number, deadline_s = self._transaction_number(), self._deadline_s()
        try:
            encoded = await hooks.encoded(record)
            if hooks.has_partitioner:
                while (known := self._accumulator.partitions(encoded.topic)) is None:
                    await self._await_topic(encoded.topic, deadline_s)
                encoded = hooks.choose(encoded, *known)
            delivery = await self._place(encoded, number, deadline_s)
        except BaseException as error:
            hooks.on_refused(error)
            raise
        hooks.watch(delivery)
        return delivery

    def _send_hooked_now(self, hooks: RecordHooks, record: UnsentRecord) -> Delivery:
        try:
            encoded = hooks.encoded_now(ProducerRecord._make(record))
            known = self._accumulator.partitions(encoded.topic)
            if known is not None:
                encoded = hooks.choose(encoded, *known)
            delivery = self._accumulator.append(*encoded)
            if delivery is None:
                delivery = self._place_now(encoded)
            self._accumulator.keep(encoded.topic)
        except BaseException as error:
            hooks.on_refused(error)
            raise
        hooks.watch(delivery)
        return delivery

    async def _place(self, record: UnsentRecord, number: int, deadline_s: float) -> Delivery:
        """Append `record`, sent in transaction `number`, as soon as there is room for it."""
        cluster = self._started()
        cluster.require_own_loop()
        accumulator = self._accumulator
        wanted_bytes = self._wanted_bytes(record)
        loop = asyncio.get_running_loop()
        if self._hooks is not None:
            self._require_open(number)
            if (appended := accumulator.append(*record)) is not None:
                return appended
        while True:
            match self._need(record):
                case Need.TOPIC:
                    await self._await_topic(record.topic, deadline_s)
                case Need.PARTITION:
                    held = (await cluster.refresh()).topics.get(record.topic)
                    if held is not None and held.partitions:
                        accumulator.on_topic(held)
                    if self._need(record) is Need.PARTITION:
                        raise _unknown_partition(record)
                case Need.MEMORY if self._turn_bytes >= TURN_BYTES:
                    # Let the event loop read responses and run other tasks, however fast this one
                    # sends. Not after the record was accepted: a cancellation must discard it.
                    self._turn_bytes = 0
                    await asyncio.sleep(0)
                case Need.MEMORY:
                    if not accumulator.budget.try_reserve(wanted_bytes):
                        # Send all batches now, full or not, so that memory becomes free.
                        self._sender.wake()
                        await self._gate.reserve(wanted_bytes, deadline_s - loop.time())
                    self._turn_bytes += wanted_bytes
                    if self._need(record) is Need.MEMORY:
                        return self._take_in(record, wanted_bytes, number)
                    # The topic was forgotten while this waited.
                    accumulator.budget.release(wanted_bytes)
            # Another task that waited may have opened a batch with room already.
            self._require_open(number)
            if (appended := accumulator.append(*record)) is not None:
                return appended

    async def _await_topic(self, topic: str, deadline_s: float) -> None:
        timeout_s = deadline_s - asyncio.get_running_loop().time()
        self._accumulator.on_topic(await self._started().topic(topic, timeout_s, timeout_s))

    def _deadline_s(self) -> float:
        return asyncio.get_running_loop().time() + self._config.max_block_ms / 1000

    def _require_open(self, number: int) -> None:
        """Refuse a record if the producer was closed, or transaction `number` ended."""
        if self._append != self._accept or number != self._transaction_number():
            self._refuse_record()

    def _take_in(self, record: UnsentRecord, reserved_bytes: int, number: int) -> Delivery:
        """Append `record` using reserved memory, and wake the sender.

        `number` is that of the transaction in which it was sent.
        """
        try:
            # The producer may have been closed, or the transaction ended, while this waited: the
            # record would never be sent, or belong to another transaction.
            self._require_open(number)
        except OttlaError:
            self._accumulator.budget.release(reserved_bytes)
            raise
        now_s = asyncio.get_running_loop().time()
        try:
            return self._accumulator.take_in(record, reserved_bytes, now_s)
        finally:
            self._sender.wake()

    # Inside

    def _need(self, record: UnsentRecord) -> Need:
        return self._accumulator.need(record.topic, record.partition)

    def _wanted_bytes(self, record: UnsentRecord) -> int:
        """Return the number of bytes to reserve for `record`.

        Raises:
            RecordTooLargeError: the record exceeds the limit.
        """
        size_bytes = max_batch_size(record)
        if size_bytes > self._max_batch_bytes:
            raise RecordTooLargeError(
                f"the record takes up to {size_bytes} bytes, the limit is {self._max_batch_bytes}: "
                "send smaller records, or raise max_request_bytes and the topic's "
                "max.message.bytes"
            )
        return self._accumulator.reservation(size_bytes)

    def _on_cluster_change(self) -> None:
        assert self._cluster is not None
        now_s = asyncio.get_running_loop().time()
        # A refresh in progress may bring topics back.
        if now_s >= self._forget_at_s and not self._cluster.is_refreshing:
            self._forget_at_s = now_s + TOPIC_IDLE_S
            self._cluster.forget_topics(self._accumulator.forget_idle())
        for topic in self._cluster.metadata.topics.values():
            if topic.partitions:
                self._accumulator.on_topic(topic, is_wanted=False)
        self._sender.wake()

    async def _start_transactions(self, cluster: Cluster, transactional_id: str) -> None:
        state = TransactionState(transactional_id)
        self._transactions = self._sender.transactions = Transactions(
            cluster, self._config, state, self._sender.adopt, self.flush, self._sender.wake
        )
        try:
            await self._transactions.initialize()
        except BaseException:
            await self.close(timeout_ms=0)
            raise
        self._append = self._refuse_record
        state.on_phase = self._on_phase

    def _on_phase(self) -> None:
        assert self._transactions is not None
        if not self._closing.has_begun:
            self._append = self._refuse_record
            if self._transactions.state.accepts_records:
                self._append = self._accept
        self._sender.wake()

    def _transaction_number(self) -> int:
        return 0 if self._transactions is None else self._transactions.state.number

    def _refuse_record(self, *_: object) -> NoReturn:
        if not self._closing.has_begun and self._transactions is not None:
            state = self._transactions.state
            if state.accepts_records:
                raise TransactionStateError("the transaction ended while the record was waiting")
            raise state.refusal("send")
        _refuse()

    def _started_transactions(self) -> Transactions:
        if self._cluster is None or self._closing.has_begun:
            _refuse()
        if self._transactions is None:
            raise TransactionStateError("the producer has no transactions: set transactional_id")
        return self._transactions

    def _started(self) -> Cluster:
        if self._cluster is None:
            _refuse()
        return self._cluster


def _refuse(*_: object) -> NoReturn:
    raise ClientClosedError(
        "the producer is not running: use `async with Producer(...)`, and send before its end"
    )


def _given_up() -> ClientClosedError:
    return ClientClosedError("the producer was closed before it was written")


def _defer(*_: object) -> None:
    """Accept no record at once: the hooks come first."""


def _unknown_partition(record: UnsentRecord) -> UnknownPartitionError:
    return UnknownPartitionError(
        f"topic {record.topic} has no partition {record.partition!r}: choose one that exists, or "
        "leave the choice to the producer"
    )
