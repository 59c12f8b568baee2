"""Sends the requests of a transaction to its coordinators, each once (edge).

An error of one partition fails the whole request; the caller decides about retries.
"""

from collections.abc import Collection, Iterable, Mapping

from kafkawire.errors import ErrorCode
from kafkawire.ids import ProducerId, TopicPartition, by_topic
from kafkawire.messages.init_producer_id import (
    IDENTITY_SINCE,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkawire.messages.transactions import (
    MEMBER_SINCE,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafkawire.sentinels import NO_EPOCH, NO_PRODUCER_ID
from ottla.client.errors import OttlaError, ProtocolError, UnsupportedVersionError, broker_error
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection_pool import Purpose
from ottla.client.network.coordinator import Coordinator, KeyType
from ottla.client.offset import CommittedOffset, GroupMetadata
from ottla.client.producer.producer_id_request import require_identity
from ottla.client.producer.producer_sequences import ProducerIdentity
from ottla.client.producer.transaction_verdict import Step, worst
from ottla.client.request_parts import parts


class TransactionRequests:
    """The requests of one transactional id."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator = Coordinator(cluster, KeyType.TRANSACTION, transactional_id)
        self._groups: dict[str, Coordinator] = {}

    def forget(self) -> None:
        """Look up all coordinators again: a broker sent an invalid response."""
        self._coordinator.forget()
        self._groups.clear()

    async def initialize(self, identity: ProducerIdentity | None) -> ProducerIdentity:
        """Return producer id and epoch; with `identity` the next epoch of the same producer."""

        def request(version: int) -> InitProducerIdRequest:
            if identity is not None and version < IDENTITY_SINCE:
                raise UnsupportedVersionError(
                    "the brokers cannot give a producer a new epoch: make a new producer"
                )
            return InitProducerIdRequest(
                transactional_id=self._transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=NO_PRODUCER_ID if identity is None else identity.producer_id,
                producer_epoch=NO_EPOCH if identity is None else identity.epoch,
            )

        response = await self._coordinator.ask(
            request, InitProducerIdResponse, purpose=Purpose.TRANSACTION
        )
        require_identity(response)
        return ProducerIdentity(ProducerId(response.producer_id), response.producer_epoch)

    async def add_partitions(
        self, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
    ) -> None:
        """Add partitions to the transaction, all of them or none."""
        wanted = sorted(partitions)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(wanted).items()
            ],
        )
        response = await self._coordinator.request(
            request, AddPartitionsToTxnResponse, purpose=Purpose.TRANSACTION
        )
        codes = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        self._raise_worst(Step.ADD, wanted, codes, self._coordinator)

    async def add_offsets(self, identity: ProducerIdentity, group_id: str) -> None:
        """Add the committed offsets of a group to the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        await self._coordinator.ask(request, AddOffsetsToTxnResponse, purpose=Purpose.TRANSACTION)

    async def commit_offsets(
        self,
        identity: ProducerIdentity,
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        """Commit offsets of a group as part of the transaction."""
        for part in parts(sorted(offsets)):
            await self._commit_part(identity, group, {each: offsets[each] for each in part})

    async def _commit_part(
        self,
        identity: ProducerIdentity,
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        def request(version: int) -> TxnOffsetCommitRequest:
            if version < MEMBER_SINCE and group.member_id:
                raise UnsupportedVersionError(
                    "the brokers cannot check the member of a group: its partitions may belong to "
                    "another one; pass the group's id alone to commit nevertheless"
                )
            return TxnOffsetCommitRequest(
                transactional_id=self._transactional_id,
                group_id=group.group_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                generation_id=group.generation,
                member_id=group.member_id,
                group_instance_id=group.group_instance_id,
                topics=_offset_rows(offsets),
            )

        coordinator = self._groups.setdefault(
            group.group_id, Coordinator(self._cluster, KeyType.GROUP, group.group_id)
        )
        response = await coordinator.request(
            request, TxnOffsetCommitResponse, purpose=Purpose.TRANSACTION
        )
        codes = {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in response.topics
            for each in topic.partitions
        }
        self._raise_worst(Step.COMMIT_OFFSETS, offsets.keys(), codes, coordinator)

    async def end(self, identity: ProducerIdentity, *, is_commit: bool) -> None:
        """Commit or abort the transaction; its markers may be written after this returns."""
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )
        await self._coordinator.ask(request, EndTxnResponse, purpose=Purpose.TRANSACTION)

    def _raise_worst(
        self,
        step: Step,
        wanted: Collection[TopicPartition],
        codes: Mapping[TopicPartition, int],
        coordinator: Coordinator,
    ) -> None:
        """Raise the error that decides the fate of the request, unless all codes are NONE."""
        missing = [each for each in wanted if each not in codes]
        if missing:
            raise ProtocolError(f"the broker omitted partitions from its response to {step.value}")
        errors = [
            broker_error(codes[each], f"{each} in {coordinator.subject}")
            for each in wanted
            if codes[each] != ErrorCode.NONE
        ]
        found: OttlaError | None = worst(step, errors)
        if found is not None:
            coordinator.on_refusal(found)
            raise found


def _offset_rows(
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> list[TxnOffsetCommitRequestTopic]:
    return [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offsets[TopicPartition(topic, index)].offset,
                    committed_leader_epoch=offsets[TopicPartition(topic, index)].leader_epoch,
                    committed_metadata=offsets[TopicPartition(topic, index)].metadata,
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(sorted(offsets)).items()
    ]
