"""Cost of a produce and a fetch request between the socket and the disk (edge).

`python -m benchmarks.micro.test_handlers` prints microseconds per request, layer by layer; each
line includes the lines below it. As a test each case runs once, with a check of its response.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast

import structlog

from broker.cluster.control_fence import ControlFence
from broker.cluster.metadata_cache import MetadataCache
from broker.handlers.fetch import FetchHandler
from broker.handlers.follower_fetch import FollowerFetchHandler
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Connection, ConnectionQueue, Request
from broker.network.request_tasks import RequestTasks
from broker.network.router import Router
from broker.purgatory import Purgatory
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.headers import RequestHeader
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.records import BatchBuilder
from kafkawire.schema import decode, encode
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from tests.unit.broker.replicas import lead_alone, make_produce_handler

ROUNDS: Final = 7
REQUESTS: Final = 10_000
RECORD_BYTES: Final = 1024
MAX_BYTES: Final = 1 << 30
NOW_MS: Final = 1_700_000_000_000
PARTITION: Final = TopicPartition("t", 0)
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
# Bytes of a batch that a leader overwrites; restored before the same batch is sent again.
ASSIGNED_BYTES: Final = 16


class Bench:
    """One partition, a router in front of it, and the requests to send."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        metadata, purgatory = MetadataCache(), Purgatory[TopicPartition](loop)
        logs = Logs.open([directory], config_of=lambda _topic: LogConfig(), now_ms=NOW_MS)
        self.replicas = ReplicaManager(
            broker_id=BrokerId(1),
            logs=logs,
            metadata=metadata,
            fence=ControlFence(),
            loop=loop,
            now_ms=lambda: NOW_MS,
            clock_ms=lambda: NOW_MS,
            log_config_of=lambda _topic: LogConfig(),
        )
        self.replicas.events.on_change(purgatory.on_change)
        topic_id = uuid.uuid4()
        log = logs.create(PARTITION, LogConfig(), topic_id, now_ms=NOW_MS)
        lead_alone(self.replicas, log)
        self.produce_handler = make_produce_handler(
            self.replicas, purgatory, RequestTasks(loop), now_ms=lambda: NOW_MS
        )
        followers = FollowerFetchHandler(
            self.replicas,
            purgatory,
            loop=loop,
            max_sessions=0,
            max_bytes=MAX_BYTES,
            clock_ms=lambda: NOW_MS,
        )
        fetch_handler = FetchHandler(self.replicas, purgatory, MAX_BYTES, followers)
        self.router = Router(
            {
                ApiKey.PRODUCE: lambda: self.produce_handler.handle,
                ApiKey.FETCH: lambda: fetch_handler.handle,
            }
        )
        batch = _batch()
        self.produce_request = _request(ApiKey.PRODUCE, PRODUCE_VERSION, _produce(batch))
        self.fetch_request = _request(ApiKey.FETCH, FETCH_VERSION, _fetch(len(batch)))
        body = self.produce_request.body
        self.message = decode(ProduceRequest, body, PRODUCE_VERSION)
        self._batch = cast(memoryview, self.message.topic_data[0].partition_data[0].records)
        self._unassigned = bytes(batch[:ASSIGNED_BYTES])

    def produce(self) -> Reply:
        """Send the complete request through the router."""
        self.reset()
        return self.router.handle(self.produce_request)

    def handle(self) -> Reply:
        """Pass the decoded request to its handler."""
        self.reset()
        return self.produce_handler.handle(self.produce_request, self.message)

    def append(self) -> None:
        """Append the batch to the replica: validation and the log."""
        self.reset()
        self.replicas.append(PARTITION, self._batch, 1, NOW_MS)

    def fetch(self) -> Reply:
        """Read one batch."""
        return self.router.handle(self.fetch_request)

    def reset(self) -> None:
        """Restore the batch to the form that a producer sends."""
        self._batch[:ASSIGNED_BYTES] = self._unassigned


def _batch() -> bytearray:
    builder = BatchBuilder()
    builder.append(NOW_MS, None, bytes(RECORD_BYTES))
    return builder.build()


def _produce(batch: bytearray) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name=PARTITION.topic, partition_data=[data])
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def _fetch(max_bytes: int) -> FetchRequest:
    wanted = FetchPartition(fetch_offset=0, partition_max_bytes=max_bytes)
    return FetchRequest(topics=[FetchTopic(topic=PARTITION.topic, partitions=[wanted])])


def _request(key: ApiKey, version: int, message: object) -> Request:
    body = memoryview(bytearray(encode(message, version)))
    header = RequestHeader(key, version, 1, "bench")
    return Request(ConnectionQueue(cast(Connection, object())), header, body, 0.0)


def _us_per_call(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began_s = time.process_time()
        for _ in range(REQUESTS):
            call()
        best = min(best, time.process_time() - began_s)
    return best * 1e6 / REQUESTS


def measure(bench: Bench) -> Iterator[tuple[str, float]]:
    """Yield the cost of each layer, including the layers below it."""
    reset_us = _us_per_call(bench.reset)
    yield "produce 1 KiB: router, decoding, handler, log", _us_per_call(bench.produce) - reset_us
    yield "  handler, validation, log", _us_per_call(bench.handle) - reset_us
    yield "  validation, log", _us_per_call(bench.append) - reset_us
    yield "fetch 1 KiB: router, decoding, handler, log", _us_per_call(bench.fetch)


async def test_measured_requests_succeed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, asyncio.get_running_loop())
    produced = [bench.produce().message, bench.handle().message]
    assert [_base_offset(answer) for answer in produced] == [0, 1]
    fetched = bench.fetch().message
    assert isinstance(fetched, FetchResponse)
    data = fetched.responses[0].partitions[0]
    assert (data.error_code, data.high_watermark) == (0, 2)
    assert data.records


def _base_offset(answer: object) -> int:
    assert isinstance(answer, EncodedMessage)
    response = decode(ProduceResponse, answer, PRODUCE_VERSION)
    return response.responses[0].partition_responses[0].base_offset


async def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), asyncio.get_running_loop())
        for name, cost_us in measure(bench):
            sys.stdout.write(f"{name:48} {cost_us:6.1f} us\n")
    return 0


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    sys.exit(asyncio.run(main()))
