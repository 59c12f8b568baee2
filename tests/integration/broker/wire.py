"""A client that sends exactly the requests of a test, over one blocking socket (edge).

It checks nothing: it can send malformed requests, and returns every response.
"""

import socket
import ssl
from collections.abc import Sequence
from struct import Struct
from types import TracebackType
from typing import Self, TypeVar

from kafkawire.apis import APIS, ApiKey
from kafkawire.compression import Codec
from kafkawire.errors import ErrorCode
from kafkawire.headers import decode_response_header, encode_request
from kafkawire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkawire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.records import BatchBuilder
from kafkawire.schema import decode

TIMEOUT_S = 60.0
NOT_HERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Errors of a partition during its deletion: first it has no leader, then it is unknown."""
SIZE = Struct(">i")
NOW_MS = 1_700_000_000_000

M = TypeVar("M")


class Wire:
    """One connection to a broker."""

    def __init__(self, port: int, source: str = "127.0.0.1") -> None:
        """Connect from the address `source`."""
        self.socket = socket.create_connection(
            ("127.0.0.1", port), timeout=TIMEOUT_S, source_address=(source, 0)
        )
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(
        self, key: ApiKey, version: int, message: object, client_id: str | None = "test"
    ) -> int:
        """Send a request and return its correlation id."""
        self._correlation_id += 1
        self.socket.sendall(encode_request(key, version, self._correlation_id, client_id, message))
        return self._correlation_id

    def send_bytes(self, data: bytes) -> None:
        """Send arbitrary bytes."""
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        """Return the next response with its header.

        Raises:
            ConnectionError: the broker has closed the connection.
        """
        return self._receive(SIZE.unpack(self._receive(SIZE.size))[0])

    def receive(self, key: ApiKey, version: int) -> tuple[int, object]:
        """Return the correlation id and the message of the next response."""
        frame = self.receive_frame()
        correlation_id, start = decode_response_header(key, version, frame)
        message: object = decode(APIS[key].response, frame[start:], version)
        return correlation_id, message

    def ask(
        self,
        key: ApiKey,
        version: int,
        message: object,
        response: type[M],
        client_id: str | None = "test",
    ) -> M:
        """Send a request and return the message of its response."""
        sent_id = self.send(key, version, message, client_id)
        correlation_id, answer = self.receive(key, version)
        assert correlation_id == sent_id
        assert isinstance(answer, response)
        return answer

    def is_closed(self) -> bool:
        """Return whether the broker closes the connection without sending a byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)

    # Requests of many tests.

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> CreatableTopicResult:
        """Create a topic, with underscores for dots in configs; the test checks its error code."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic])
        return self.ask(ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse).topics[0]

    def ask_for_topic(self, name: str) -> None:
        """Request the metadata of a topic, which creates a missing topic."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        self.ask(ApiKey.METADATA, 12, request, MetadataResponse)

    def produce(
        self,
        topic: str,
        records: bytes | None,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = 9,
        client_id: str | None = "test",
        transactional_id: str | None = None,
    ) -> PartitionProduceResponse:
        """Produce to one partition and return its response."""
        request = produce_request([(topic, partition, records)], acks)
        request.transactional_id = transactional_id
        response = self.ask(ApiKey.PRODUCE, version, request, ProduceResponse, client_id)
        return response.responses[0].partition_responses[0]

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        version: int = 12,
        max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        isolation_level: int = 0,
        replica_id: int = -1,
    ) -> PartitionData:
        """Fetch from one partition without waiting and return its response."""
        wanted = FetchPartition(
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        request = FetchRequest(
            replica_id=replica_id,
            isolation_level=isolation_level,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        response = self.ask(ApiKey.FETCH, version, request, FetchResponse)
        return response.responses[0].partitions[0]


class TlsWire(Wire):
    """A connection to a listener with TLS."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        """Connect, and perform the handshake."""
        super().__init__(port)
        secure = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.socket = secure
        self.certificate = secure.getpeercert(binary_form=True) or b""


def produce_request(batches: Sequence[tuple[str, int, bytes | None]], acks: int) -> ProduceRequest:
    """Return a request that appends each batch to its partition, in this order."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=records)],
            )
            for topic, partition, records in batches
        ],
    )


def batch(
    *values: bytes,
    codec: Codec = Codec.NONE,
    keys: Sequence[bytes | None] | None = None,
    timestamp_ms: int = NOW_MS,
    producer_id: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """Return one record batch with these values."""
    is_idempotent = producer_id >= 0
    builder = BatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if is_idempotent else -1,
        base_sequence=0 if is_idempotent else -1,
        is_transactional=is_transactional,
    )
    for index, value in enumerate(values):
        key = b"key" if keys is None else keys[index]
        builder.append(timestamp_ms + index, key, value)
    return bytes(builder.build())
