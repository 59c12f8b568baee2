"""The progress of a Produce request through its batches (decision)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.network.request import NO_BODY, Request
from broker.replication.transaction_guards import TransactionalAppend
from broker.transactions.verification import Asked, Unverified
from kafkawire.compression import Codec
from kafkawire.errors import ApiError, CorruptBatchError, ErrorCode
from kafkawire.ids import Offset, TopicPartition
from kafkawire.internal_topic import INTERNAL_TOPICS
from kafkawire.messages.produce import ZSTD_SINCE, PartitionProduceData, ProduceRequest
from kafkawire.plain_codecs import Accepted
from kafkawire.records import read_header
from kafkawire.sentinels import ACKS_ALL
from storage.log.log import AppendInfo

ADMIN_CLIENT_ID: Final = "__admin_client"
# Limit of the decompressed bytes of one request whose batches are validated in a thread.
MAX_REQUEST_DECOMPRESSED_BYTES: Final = 2 << 30

Pending = dict[TopicPartition, Offset]
Refused = dict[int, list[tuple[int, ApiError]]]
TopicAccepted = tuple[str, list[Accepted]]
IsCommitted = Callable[[tuple[str, int], Offset], bool]


class Appending:
    """Progress of a request whose batches are being appended."""

    __slots__ = (
        "accepted",
        "denied",
        "is_abandoned",
        "is_large",
        "is_resumed",
        "is_spent",
        "message",
        "partition_place",
        "pending",
        "refused",
        "request",
        "topic_place",
        "transaction",
        "unverified",
    )

    def __init__(self, request: Request, message: ProduceRequest) -> None:
        self.request = request
        self.message = message
        self.accepted: list[TopicAccepted] = []
        """Appended batches of each topic that has been started."""
        self.refused: Refused = {}
        """Refused partitions and their errors, by the topic's position in the request."""
        self.pending: Pending = {}
        """Last offset of each partition for which acks=all waits."""
        # Position of the next batch, if the request is not done.
        self.topic_place = 0
        self.partition_place = 0
        self.is_large = False
        """Whether the validation of the next batch takes longer than a turn of the loop."""
        self.is_resumed = False
        """Whether a turn of the loop has ended before the last batch."""
        self.is_spent = False
        """Whether the request has used up its limit of decompressed bytes."""
        self.is_abandoned = False
        """Whether the connection is gone."""
        self.transaction: TransactionalAppend | None = None
        """The checks of transactional batches; None if there must be none."""
        self.denied: dict[TopicPartition, ApiError] = {}
        """Errors of partitions that do not belong to the transaction."""
        self.unverified: tuple[Asked, list[Unverified]] | None = None
        """Partitions for which the transaction coordinator must be asked first."""

    def stop_at(self, topic_place: int, partition_place: int, is_large: bool) -> None:
        """Record the position of the next batch."""
        self.topic_place, self.partition_place = topic_place, partition_place
        self.is_large, self.is_resumed = is_large, True

    def abandon(self) -> None:
        """Append no further batch, because the connection is gone."""
        self.is_abandoned = True

    def check(self, key: tuple[str, int]) -> None:
        """Check that a partition may belong to the transaction.

        Raises:
            ApiError: it does not, or its coordinator gave no answer.
        """
        if (error := self.denied.get(TopicPartition(*key))) is not None:
            raise error

    @property
    def next_data(self) -> tuple[str, PartitionProduceData]:
        """The next batch and its topic."""
        topic = self.message.topic_data[self.topic_place]
        return topic.name, topic.partition_data[self.partition_place]

    def accept(self, info: AppendInfo, is_committed: IsCommitted) -> None:
        """Record that the next batch was appended, and advance."""
        name, data = self.next_data
        base_offset, last_offset, time_ms, start_offset = info
        row = (data.index, base_offset, time_ms, start_offset)
        self.accepted[self.topic_place][1].append(row)
        if self.message.acks == ACKS_ALL and not is_committed((name, data.index), last_offset):
            self.pending[TopicPartition(name, data.index)] = last_offset
        self._skip()

    def refuse(self, error: ApiError) -> None:
        """Record that the next batch was refused, and advance."""
        _, data = self.next_data
        self.refused.setdefault(self.topic_place, []).append((data.index, error))
        self._skip()

    def own_batches(self) -> int:
        """Copy the remaining batches out of the shared buffer; return their size."""
        size_bytes = 0
        first = self.partition_place
        for topic in self.message.topic_data[self.topic_place :]:
            for data in topic.partition_data[first:]:
                if data.records is not None:
                    assert isinstance(data.records, memoryview), "views of the request"
                    data.records = memoryview(bytearray(data.records))
                    size_bytes += len(data.records)
            first = 0
        return size_bytes

    def drop_batches(self) -> None:
        """Forget the batches, whose buffer is given back; the response may wait for replicas."""
        self.request.body = NO_BODY
        for topic in self.message.topic_data:
            for data in topic.partition_data:
                data.records = None

    def _skip(self) -> None:
        self.partition_place += 1
        self.is_large = False


def expands_too_far() -> ApiError:
    """Return the error of a batch above the request's limit of decompressed bytes."""
    text = f"the request expands beyond {MAX_REQUEST_DECOMPRESSED_BYTES} bytes"
    return ApiError(ErrorCode.MESSAGE_TOO_LARGE, text)


def batch_of(request: Request, topic: str, data: PartitionProduceData) -> memoryview:
    """Return the batch of one partition.

    Raises:
        ApiError: the request's version or topic does not allow it.
    """
    header = request.header
    if topic in INTERNAL_TOPICS and header.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is internal")
    batch = data.records
    if batch is None:
        raise ApiError(ErrorCode.INVALID_RECORD, "there is no record batch")
    assert isinstance(batch, memoryview), "decoded records are views of the request"
    if header.api_version < ZSTD_SINCE and _codec(batch) is Codec.ZSTD:
        text = f"zstd needs version {ZSTD_SINCE} of Produce"
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    return batch


def _codec(batch: memoryview) -> Codec:
    try:
        return read_header(batch).codec
    except CorruptBatchError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
