"""Lists, describes and ends transactions (edge).

The coordinator of a transactional id knows its state; the leader of a partition knows the producers
that write to it. A transaction is hanging if the leader keeps it open although no coordinator will
end it: readers at read_committed stop there.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, Offset, TopicPartition, by_topic
from kafkawire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
    ProducerDescription,
)
from kafkawire.messages.transaction_admin import (
    DURATION_SINCE,
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafkawire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkawire.sentinels import MAX_OFFSET, NO_EPOCH
from ottla.client.admin.admin_request import (
    all_answers,
    ask_all,
    error_or_none,
    raise_first,
    raise_refused,
)
from ottla.client.admin_model import (
    HangingTransaction,
    OpenTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from ottla.client.argument import require_instance, require_partition, require_whole
from ottla.client.errors import (
    BrokerError,
    ConfigurationError,
    UnsupportedVersionError,
    broker_error,
    no_result,
)
from ottla.client.network.cluster import Cluster
from ottla.client.network.coordinator import Coordinator, KeyType
from ottla.client.network.partition_lookup import missing_partitions
from ottla.client.request_parts import parts
from ottla.client.retry import retry

NO_OFFSET: Final = -1
MAX_INT16: Final = 2**15 - 1
NO_TIME: Final = -1
MAX_IDS_PER_REQUEST: Final = 1_000
"""Limit on the transactional ids that are described in one round of requests."""


async def list_transactions(
    cluster: Cluster,
    *,
    states: Sequence[str],
    producer_ids: Sequence[int],
    min_duration_ms: int | None,
    timeout_s: float,
) -> list[TransactionListing]:
    """Return the transactional ids of all brokers that match every given filter."""

    def request(version: int) -> ListTransactionsRequest:
        if min_duration_ms is not None and version < DURATION_SINCE:
            raise UnsupportedVersionError("the brokers cannot filter transactions by duration")
        return ListTransactionsRequest(
            state_filters=states,
            producer_id_filters=producer_ids,
            duration_filter=NO_TIME if min_duration_ms is None else min_duration_ms,
        )

    async def ask(broker_id: BrokerId) -> list[TransactionListing]:
        response = await cluster.request(broker_id, request, ListTransactionsResponse)
        raise_first([error_or_none(response.error_code, f"transactions of broker {broker_id}")])
        if response.unknown_state_filters:
            unknown = ", ".join(response.unknown_state_filters)
            raise ConfigurationError(f"states: {unknown} is no state of a transaction")
        return [
            TransactionListing(
                transactional_id=each.transactional_id,
                coordinator_id=broker_id,
                producer_id=each.producer_id,
                state=each.transaction_state,
            )
            for each in response.transaction_states
        ]

    return sorted(await ask_all(cluster, ask, timeout_s), key=lambda each: each.transactional_id)


async def describe_transaction(
    cluster: Cluster, transactional_id: str, timeout_s: float
) -> TransactionDescription:
    """Return the state of a transactional id.

    Raises:
        BrokerError: there is no such id, or its coordinator refuses.
    """
    coordinator = Coordinator(cluster, KeyType.TRANSACTION, transactional_id)

    async def once() -> DescribedTransaction:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        response = await coordinator.request(request, DescribeTransactionsResponse)
        if not response.transaction_states:
            raise no_result(coordinator.subject)
        state = response.transaction_states[0]
        if state.error_code != ErrorCode.NONE:
            raise coordinator.refusal(state.error_code)
        return state

    state = await retry(once, cluster.backoff, timeout_s)
    coordinator_id = coordinator.broker_id
    assert coordinator_id is not None
    return TransactionDescription(
        transactional_id=transactional_id,
        coordinator_id=coordinator_id,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        state=state.transaction_state,
        timeout_ms=state.transaction_timeout_ms,
        start_ms=None if state.transaction_start_time_ms < 0 else state.transaction_start_time_ms,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, partition)
                for topic in state.topics
                for partition in topic.partitions
            )
        ),
    )


async def describe_producers(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    broker_id: BrokerId | None,
    timeout_s: float,
) -> dict[TopicPartition, tuple[ProducerState, ...]]:
    """Return the active producers of partitions, as their leaders or `broker_id` know them."""
    found: dict[TopicPartition, tuple[ProducerState, ...]] = {}
    wanted = list(dict.fromkeys(partitions))

    async def attempt() -> None:
        left: dict[BrokerId, list[TopicPartition]] = {}
        for each in wanted:
            if each not in found:
                asked = cluster.metadata.leader(each) if broker_id is None else broker_id
                if asked is None:
                    cluster.request_refresh()
                    raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, str(each))
                left.setdefault(asked, []).append(each)
        await all_answers(
            ask(asked, part) for asked, places in left.items() for part in parts(places)
        )

    async def ask(asked: BrokerId, part: Sequence[TopicPartition]) -> None:
        request = DescribeProducersRequest(
            topics=[
                DescribeProducersTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(part).items()
            ]
        )
        response = await cluster.request(asked, request, DescribeProducersResponse)
        results = {
            TopicPartition(topic.name, result.partition_index): result
            for topic in response.topics
            for result in topic.partitions
        }
        for place, result in results.items():
            if result.error_code == ErrorCode.NONE:
                found[place] = tuple(map(_producer, result.active_producers))
            else:
                cluster.request_refresh()
        raise_refused(
            map(str, part),
            ((str(it), row.error_code, row.error_message) for it, row in results.items()),
        )

    raise_first((await missing_partitions(cluster, wanted, timeout_s)).values())
    await retry(attempt, cluster.backoff, timeout_s)
    return {each: found[each] for each in wanted}


async def abort_transaction(
    cluster: Cluster, transaction: OpenTransaction, timeout_s: float
) -> None:
    """Write an abort marker for a hanging transaction to its partition.

    Raises:
        OttlaError: the leader refuses, or did not answer.
    """
    require_instance("transaction", OpenTransaction, transaction)
    place = require_partition(transaction.partition)
    require_whole("producer_id", transaction.producer_id, 0, MAX_OFFSET)
    require_whole("producer_epoch", transaction.producer_epoch, 0, MAX_INT16)
    require_whole("coordinator_epoch", transaction.coordinator_epoch, NO_EPOCH)

    async def once() -> None:
        leader = cluster.metadata.leader(place)
        if leader is None:
            cluster.request_refresh()
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, str(place))
        request = WriteTxnMarkersRequest(markers=[_abort_marker(transaction)])
        response = await cluster.request(leader, request, WriteTxnMarkersResponse)
        codes = {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        }
        if place not in codes:
            raise no_result(str(place))
        if codes[place] != ErrorCode.NONE:
            cluster.request_refresh()
            raise broker_error(codes[place], f"the abort marker in {place}")

    raise_first((await missing_partitions(cluster, [place], timeout_s)).values())
    # A second marker does no harm, so every transient error may be retried.
    await retry(once, cluster.backoff, timeout_s)


async def find_hanging(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    broker_id: BrokerId | None,
    *,
    open_since_ms: int,
    timeout_s: float,
) -> list[HangingTransaction]:
    """Return the transactions in `partitions` that no coordinator will end.

    Only those count whose last record is from before `open_since_ms`, since the leader may learn of
    the end of younger ones.
    """
    by_place = await describe_producers(cluster, partitions, broker_id, timeout_s)
    old = [
        (place, producer)
        for place, producers in by_place.items()
        for producer in producers
        if producer.transaction_start_offset is not None
        and producer.last_timestamp_ms < open_since_ms
    ]
    if not old:
        return []
    ids = sorted({producer.producer_id for _, producer in old})
    listed = await list_transactions(
        cluster, states=(), producer_ids=ids, min_duration_ms=None, timeout_s=timeout_s
    )
    owners = {each.producer_id: each.transactional_id for each in listed}
    described = await _describe(cluster, sorted(set(owners.values())), timeout_s)
    hanging = []
    for place, producer in old:
        owner = owners.get(producer.producer_id)
        known = described.get(owner) if owner is not None else None
        if known is not None and _covers(known, place, producer):
            continue
        hanging.append(
            HangingTransaction(partition=place, producer=producer, transactional_id=owner)
        )
    return hanging


async def _describe(
    cluster: Cluster, transactional_ids: Sequence[str], timeout_s: float
) -> dict[str, TransactionDescription]:
    """Return the descriptions of ids; an id that has expired meanwhile is left out."""

    async def ask(transactional_id: str) -> TransactionDescription | None:
        try:
            return await describe_transaction(cluster, transactional_id, timeout_s)
        except BrokerError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            raise

    found: dict[str, TransactionDescription] = {}
    for start in range(0, len(transactional_ids), MAX_IDS_PER_REQUEST):
        part = transactional_ids[start : start + MAX_IDS_PER_REQUEST]
        answers = await all_answers(map(ask, part))
        found.update((each.transactional_id, each) for each in answers if each is not None)
    return found


def _covers(known: TransactionDescription, place: TopicPartition, producer: ProducerState) -> bool:
    """Whether the coordinator will end the transaction of `producer` in `place`."""
    return known.producer_id == producer.producer_id and place in known.partitions


def _producer(row: ProducerDescription) -> ProducerState:
    start = row.current_txn_start_offset
    return ProducerState(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        coordinator_epoch=row.coordinator_epoch,
        last_sequence=row.last_sequence,
        last_timestamp_ms=row.last_timestamp,
        transaction_start_offset=None if start <= NO_OFFSET else Offset(start),
    )


def _abort_marker(transaction: OpenTransaction) -> WritableTxnMarker:
    place = transaction.partition
    return WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        # A leader that has seen no marker of this producer yet knows no epoch of a coordinator.
        coordinator_epoch=max(transaction.coordinator_epoch, 0),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
    )
