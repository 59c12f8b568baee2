"""Our broker as the server under load, and the frames that load it (edge)."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from benchmarks.loads.pipeline import connect, exchange
from benchmarks.loads.process import (
    CONNECT_RETRY_S,
    HOST,
    START_TIMEOUT_S,
    ServerProcess,
    free_port,
)
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.headers import decode_response_header, encode_request
from kafkawire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.records import BatchBuilder
from kafkawire.schema import decode

CLIENT_ID: Final = "ottla-bench"
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
CREATE_TOPICS_VERSION: Final = 7
CORRELATION_ID: Final = 7
REQUEST_TIMEOUT_MS: Final = 30_000
# Retention would delete old records during the measurement.
TIMESTAMP_MS: Final = time.time_ns() // 1_000_000


def broker_process(directory: Path, *, overrides: tuple[str, ...] = ()) -> ServerProcess:
    """Return one broker over an empty log dir below `directory`, not yet started."""
    port = free_port()
    settings = (
        f"listeners=PLAINTEXT://{HOST}:{port}",
        f"log.dirs={directory / 'logs'}",
        "broker.id=1",
        *overrides,
    )
    arguments = ["-m", "broker"]
    for setting in settings:
        arguments += ["--override", setting]
    return ServerProcess(arguments, port, log=directory / "broker.log")


def create_topic(port: int, name: str, partition_count: int) -> None:
    """Create a topic; raise RuntimeError if the broker refuses."""
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1)],
        timeout_ms=REQUEST_TIMEOUT_MS,
    )
    frame = encode_request(
        ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, CORRELATION_ID, CLIENT_ID, request
    )
    answer = _first_answer(port, frame)
    _, start = decode_response_header(
        ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, memoryview(answer)
    )
    response = decode(CreateTopicsResponse, answer[start:], CREATE_TOPICS_VERSION)
    code = ErrorCode(response.topics[0].error_code)
    if code is not ErrorCode.NONE:
        raise RuntimeError(f"the broker refused to create {name}: {code.name}")


def _first_answer(port: int, frame: bytes) -> bytes:
    """Return the response to `frame`, with retries: a broker listens before it serves clients."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with connect(HOST, port) as connection:
                return exchange(connection, frame)
        except ConnectionError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(CONNECT_RETRY_S)


def produce_frame(
    topic: str, partition: int, batch_bytes: int, *, acks: int = 1, key: bytes | None = None
) -> bytes:
    """Return a Produce request with a batch of about `batch_bytes`."""
    value = os.urandom(batch_bytes - 61 - 12 - len(key or b""))
    builder = BatchBuilder()
    builder.append(TIMESTAMP_MS, key, value)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=REQUEST_TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=builder.build())],
            )
        ],
    )
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, CORRELATION_ID, CLIENT_ID, request)


def produce_answer_bytes(port: int, frame: bytes) -> int:
    """Send one frame, require success, and return the size of the complete response."""
    with connect(HOST, port) as connection:
        answer = exchange(connection, frame)
    _, start = decode_response_header(ApiKey.PRODUCE, PRODUCE_VERSION, memoryview(answer))
    response = decode(ProduceResponse, answer[start:], PRODUCE_VERSION)
    code = ErrorCode(response.responses[0].partition_responses[0].error_code)
    if code is not ErrorCode.NONE:
        raise RuntimeError(f"the broker refused a produce request: {code.name}")
    return len(answer) + 4


def fetch_frame(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    """Return a Fetch request for up to `max_bytes` from `offset`, without a wait."""
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
                    )
                ],
            )
        ],
    )
    return encode_request(ApiKey.FETCH, FETCH_VERSION, CORRELATION_ID, CLIENT_ID, request)
