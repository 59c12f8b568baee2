"""Sends due batches and settles acknowledged ones (edge).

There is no task. A pass (`run`) sends all due batches. It runs again when something changed (a
batch became full, a response arrived, a connection opened, metadata changed) or a timer rang.
Invariant: a batch taken from the accumulator is in exactly one request, and the response or the
failure of that request puts the batch back or settles it. The accumulator keeps the order of a
partition's batches when one is put back.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from kafkawire.apis import ApiKey
from kafkawire.compression import Codec
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, ProducerId, TopicPartition
from kafkawire.messages.produce import (
    ZSTD_SINCE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.sentinels import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from ottla.client.background import Alarm
from ottla.client.client_config import Address, ProducerConfig
from ottla.client.client_metrics import ProducerCounts
from ottla.client.cluster_metadata import needs_metadata
from ottla.client.errors import (
    BrokerError,
    DeliveryTimedOutError,
    OttlaError,
    ProduceError,
    ProtocolError,
    TokenProviderError,
    UnsupportedVersionError,
    broker_error,
)
from ottla.client.network.broker_connection import Connection
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection_pool import Purpose
from ottla.client.producer.accumulator import Accumulator, Due
from ottla.client.producer.batch_verdict import Verdict, judge
from ottla.client.producer.producer_batch import ProducerBatch
from ottla.client.producer.producer_id_request import ProducerIdRequest
from ottla.client.producer.producer_sequences import ProducerIdentity, ProducerSequences
from ottla.client.producer.topic_queues import PartitionQueue
from ottla.client.producer.transactions import Transactions
from ottla.client.request_parts import MAX_PARTITIONS_PER_REQUEST

log = logging.getLogger(__name__)

REQUEST_OVERHEAD_BYTES: Final = 512


BatchesByPartition: TypeAlias = dict[TopicPartition, ProducerBatch]


class Sender:
    """Moves batches from the accumulator to the brokers."""

    def __init__(self, cluster: Cluster, accumulator: Accumulator, config: ProducerConfig) -> None:
        self.transactions: Transactions | None = None
        """The transactions of a producer with a transactional id, set before anything is sent."""
        self._cluster = cluster
        self._accumulator = accumulator
        self._config = config
        # A partition waits for the response to its batch: not longer than the batch itself.
        self._request_timeout_ms = min(
            cluster.config.request_timeout_ms, config.delivery_timeout_ms
        )
        self._sequences = ProducerSequences() if config.enable_idempotence else None
        self._id_request = ProducerIdRequest(cluster, self._on_id, self._on_id_refused)
        self._loop = asyncio.get_running_loop()
        self._is_scheduled = False
        self._alarm = Alarm(self._loop, self.run)
        self._is_stopped = False
        self.counts = ProducerCounts()

    def wake(self) -> None:
        """Schedule a pass in this turn of the event loop; cheap to call often."""
        if not self._is_scheduled and not self._is_stopped:
            self._is_scheduled = True
            self._loop.call_soon(self._on_wake)

    def run(self) -> None:
        """Run a pass now."""
        if self._is_stopped:
            return
        now_s = self._loop.time()
        if self._accumulator.next_expiry_s() <= now_s:
            self._expire(now_s)
        due = self._accumulator.due(self._cluster.metadata, now_s)
        if self.transactions is not None:
            self._keep_transaction(due)
        elif self._sequences is not None and self._sequences.identity is None:
            if self._accumulator.incomplete or not self._id_request.was_refused:
                self._id_request.begin()
            due.keep(lambda queue: queue.batches[0].identity is not None)
        errors = self._cluster.take_connection_errors()
        for leader, queues in due.by_leader.items():
            error = errors.get((leader, Purpose.PRODUCE))
            if error is not None and self._on_unreachable(queues, error):
                continue
            connection = self._cluster.ready_connection(leader, Purpose.PRODUCE)
            if connection is not None:
                self._send_due(connection, queues)
        if due.leaderless:
            self._cluster.request_refresh()
        self._alarm.ring_by(min(due.look_again_at_s, self._accumulator.next_expiry_s()))

    def stop(self, error: OttlaError) -> None:
        """Stop sending; every unacknowledged batch fails with `error`."""
        self._is_stopped = True
        self._alarm.cancel()
        for batch in self._accumulator.drop_all():
            batch.fail(error)

    # A pass

    def _on_wake(self) -> None:
        self._is_scheduled = False
        self.run()

    def _send_due(self, connection: Connection, queues: Sequence[PartitionQueue]) -> None:
        """Send the first batch of every queue, as far as the limits of the connection allow."""
        position = 0
        while (
            position < len(queues)
            and connection.in_flight_count < self._config.max_in_flight
            and connection.is_writable
        ):
            batches: list[ProducerBatch] = []
            size_bytes = REQUEST_OVERHEAD_BYTES
            while position < len(queues):
                size_bytes += queues[position].batches[0].filled_bytes
                is_full = len(batches) >= MAX_PARTITIONS_PER_REQUEST
                if batches and (is_full or size_bytes > self._config.max_request_bytes):
                    break
                batches.append(self._take(queues[position]))
                position += 1
            self._send(connection, batches)
        connection.flush()

    def _on_unreachable(self, queues: Sequence[PartitionQueue], error: OttlaError) -> bool:
        """Note why no connection was opened for the batches of a leader; return whether they fail.

        They do if a retry would fail, too, such as with wrong credentials.
        """
        fails = not (error.retriable or isinstance(error, ProtocolError | TokenProviderError))
        for queue in queues:
            for batch in list(queue.batches):
                batch.last_error = error
                if fails:
                    self._accumulator.done(self._accumulator.take(queue))
                    self._give_up(batch, error)
        return fails

    def _take(self, queue: PartitionQueue) -> ProducerBatch:
        """Take a batch; assign sequence numbers to it if it has none."""
        batch = self._accumulator.take(queue)
        if self._sequences is not None and batch.identity is None:
            identity, base_sequence = self._sequences.take(
                batch.topic_partition, len(batch.deliveries)
            )
            batch.identify(identity, base_sequence)
        return batch

    def _send(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        sent: BatchesByPartition = {}
        for batch in batches:
            held = self._cluster.metadata.partition(batch.topic_partition)
            batch.tried_epoch = held.leader_epoch if held is not None else NO_EPOCH
            batch.attempt_count += 1
            try:
                # Here, so that an error in the compression is about this batch alone.
                batch.payload()
                sent[batch.topic_partition] = batch
            except Exception as error:
                self._on_defect(batch, error)
        if not sent:
            return
        self.counts.request_count += 1
        try:
            self._check_codec(connection)
            request = self._request(sent.values())
            if self._config.acks == 0:
                connection.send(request, ProduceResponse)
                self._on_written(sent)
            else:
                connection.send(
                    request,
                    ProduceResponse,
                    lambda response: self._on_response(sent, response),
                    lambda error: self._on_failure(sent, error),
                    timeout_s=self._request_timeout_ms / 1000,
                )
        except OttlaError as error:
            self._on_failure(sent, error)

    def _request(self, batches: Iterable[ProducerBatch]) -> ProduceRequest:
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            topic, partition = batch.topic_partition
            data = PartitionProduceData(index=partition, records=batch.payload())
            by_topic.setdefault(topic, []).append(data)
        return ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._request_timeout_ms,
            topic_data=[
                TopicProduceData(name=topic, partition_data=data)
                for topic, data in by_topic.items()
            ],
        )

    def _check_codec(self, connection: Connection) -> None:
        version = connection.choose_version(ApiKey.PRODUCE)
        if self._config.codec is Codec.ZSTD and version < ZSTD_SINCE:
            raise UnsupportedVersionError(
                f"the broker at {connection.address} is too old for zstd: use lz4"
            )

    # Responses

    def _on_response(self, sent: BatchesByPartition, response: ProduceResponse) -> None:
        for topic in response.responses:
            for result in topic.partition_responses:
                batch = sent.pop(TopicPartition(topic.name, result.index), None)
                if batch is not None:
                    try:
                        self._on_result(batch, result, response)
                    except Exception as error:
                        self._on_defect(batch, error)
        if sent:
            self._on_failure(sent, ProtocolError("the broker omitted partitions from its response"))
        else:
            self.wake()

    def _on_result(
        self, batch: ProducerBatch, result: PartitionProduceResponse, response: ProduceResponse
    ) -> None:
        if result.error_code == ErrorCode.NONE:
            self._settle(batch, Offset(result.base_offset), result.log_append_time_ms)
            return
        leader = result.current_leader
        is_moved = self._cluster.learn_leader(
            batch.topic_partition,
            BrokerId(leader.leader_id),
            LeaderEpoch(leader.leader_epoch),
            _nodes_in(response),
        )
        error, record_errors = _error_of(batch, result), _record_errors(batch, result)
        self._on_error(batch, error, record_errors, is_moved=is_moved)

    def _on_written(self, sent: BatchesByPartition) -> None:
        for batch in sent.values():
            self._settle(batch, NO_OFFSET, NO_TIMESTAMP)
        self.wake()

    def _on_failure(self, sent: BatchesByPartition, error: OttlaError) -> None:
        for batch in sent.values():
            try:
                self._on_error(batch, error, {})
            except Exception as defect:
                self._on_defect(batch, defect)
        self.wake()

    def _on_defect(self, batch: ProducerBatch, error: Exception) -> None:
        """Fail `batch`, so that its partition continues with the next one."""
        log.error("batch.not_handled partition=%s", batch.topic_partition, exc_info=error)
        if self._accumulator.is_out(batch):
            self._accumulator.done(batch)
        elif batch in self._accumulator.incomplete:
            # It was put back already, and is sent again.
            return
        if batch.is_done:
            self._leave_gap(batch)
        else:
            self._give_up(batch, _internal_error(batch, error))
        self.wake()

    def _settle(self, batch: ProducerBatch, base_offset: Offset, append_time_ms: int) -> None:
        self._accumulator.done(batch)
        if not batch.is_done:
            self.counts.batch_count += 1
            self.counts.record_count += len(batch.deliveries)
            self.counts.size_bytes += len(batch.payload())
            batch.complete(base_offset, append_time_ms)

    def _on_error(
        self,
        batch: ProducerBatch,
        error: OttlaError,
        record_errors: dict[int, OttlaError],
        *,
        is_moved: bool = False,
    ) -> None:
        """Decide on a batch after an error; `is_moved` means that its new leader is known now."""
        if batch.is_done:
            # It expired, or the producer was stopped, while it was in flight.
            self._accumulator.done(batch)
            self._leave_gap(batch)
            return
        now_s = self._loop.time()
        # Without a delay, and without metadata: the response has named the new leader (KIP-951).
        retry_at_s = now_s
        if not is_moved:
            retry_at_s += self._cluster.backoff.delay_s(batch.attempt_count)
            if needs_metadata(error):
                self._cluster.request_refresh()
        batch.last_error = error
        verdict = judge(error, batch, self._config, retry_at_s)
        if verdict is Verdict.RETRY:
            log.info("batch.retried partition=%s error=%s", batch.topic_partition, error)
            self.counts.retried_record_count += len(batch.deliveries)
            self._accumulator.put_back(batch, retry_at_s)
        elif verdict is Verdict.RENUMBER:
            log.warning("batch.renumbered partition=%s error=%s", batch.topic_partition, error)
            self._accumulator.put_back(batch, retry_at_s)
            self._leave_gap(batch)
        elif verdict is Verdict.WRITTEN:
            self._settle(batch, NO_OFFSET, NO_TIMESTAMP)
        elif verdict is Verdict.SPLIT:
            log.info("batch.split partition=%s", batch.topic_partition)
            self._accumulator.split(batch, now_s)
        else:
            self._accumulator.done(batch)
            expired = self._timed_out(batch) if verdict is Verdict.EXPIRE else None
            self._give_up(batch, expired or error, record_errors)

    def _expire(self, now_s: float) -> None:
        for batch in self._accumulator.expire(now_s):
            # The gap of a batch in flight is left once its response has arrived.
            is_out = self._accumulator.is_out(batch)
            self._give_up(batch, self._timed_out(batch), leaves_gap=not is_out)

    # Transactions

    def _keep_transaction(self, due: Due) -> None:
        """Keep the batches of `due` that belong to the open transaction; add their partitions."""
        assert self.transactions is not None
        state = self.transactions.state
        if state.is_sending:
            self.transactions.add(self._accumulator.waiting_partitions())
            due.keep(lambda queue: state.has_partition(queue.topic_partition))
            return
        due.by_leader.clear()
        for batch in self._accumulator.drop_waiting():
            log.debug("batch.dropped partition=%s", batch.topic_partition)
            dropped = self.transactions.dropped()
            self.transactions.on_batch_failed(batch, dropped)
            batch.fail(dropped)

    def _give_up(
        self,
        batch: ProducerBatch,
        error: OttlaError,
        record_errors: dict[int, OttlaError] | None = None,
        *,
        leaves_gap: bool = True,
    ) -> None:
        """Fail a batch whose numbers may be missing in its partition."""
        if self.transactions is not None:
            self.transactions.on_batch_failed(batch, error)
        elif leaves_gap:
            self._leave_gap(batch)
        self._fail(batch, error, record_errors)

    # Idempotence

    def adopt(self, identity: ProducerIdentity) -> None:
        """Number all later batches under this identity, from 0."""
        assert self._sequences is not None
        self._sequences.adopt(*identity)

    def _on_id(self, producer_id: ProducerId, epoch: int) -> None:
        assert self._sequences is not None
        self._sequences.adopt(producer_id, epoch)
        self.run()

    def _on_id_refused(self, error: OttlaError) -> None:
        """Fail all batches, as they cannot be numbered; a later record triggers a new request."""
        for batch in self._accumulator.drop_all():
            self._fail(batch, error)

    def _leave_gap(self, batch: ProducerBatch) -> None:
        """Assign new numbers to the next batches: the broker may or may not have this one's."""
        if self.transactions is not None:
            # It was counted when the batch was given up, maybe in an earlier transaction.
            return
        if self._sequences is not None and batch.identity is not None:
            self._sequences.on_gap(batch.identity)
            batch.identity = None
            self._accumulator.forget_sequences(batch.topic_partition)

    def _fail(
        self,
        batch: ProducerBatch,
        error: OttlaError,
        record_errors: dict[int, OttlaError] | None = None,
    ) -> None:
        self.counts.failed_record_count += len(batch.deliveries)
        log.warning(
            "batch.failed partition=%s record_count=%d error=%s",
            batch.topic_partition,
            len(batch.deliveries),
            error,
        )
        batch.fail(error, record_errors)

    def _timed_out(self, batch: ProducerBatch) -> DeliveryTimedOutError:
        last = batch.last_error
        error = DeliveryTimedOutError(
            f"{batch.topic_partition}: not acknowledged within {self._config.delivery_timeout_ms} "
            f"ms, tried {batch.attempt_count} times{f' (last error: {last})' if last else ''}. The "
            "records may or may not be in the log. Check the brokers, or raise "
            "delivery_timeout_ms."
        )
        error.__cause__ = last
        return error


def _nodes_in(response: ProduceResponse) -> Mapping[BrokerId, Address]:
    """Return the addresses of the leaders that a response names."""
    return {
        BrokerId(each.node_id): Address(each.host, each.port) for each in response.node_endpoints
    }


def _internal_error(batch: ProducerBatch, cause: Exception) -> ProduceError:
    error = ProduceError(
        f"{batch.topic_partition}: {type(cause).__name__} inside this client: {cause}. The records "
        "may or may not be in the log. Please report this error."
    )
    error.__cause__ = cause
    return error


def _error_of(batch: ProducerBatch, result: PartitionProduceResponse) -> BrokerError:
    return broker_error(result.error_code, str(batch.topic_partition), result.error_message)


def _record_errors(batch: ProducerBatch, result: PartitionProduceResponse) -> dict[int, OttlaError]:
    """Return the errors of rejected records, by their index in the batch (KIP-467)."""
    return {
        blamed.batch_index: broker_error(
            result.error_code, str(batch.topic_partition), blamed.batch_index_error_message
        )
        for blamed in result.record_errors
    }
