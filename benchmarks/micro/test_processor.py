"""Cost of the network layer itself per request, without sockets (edge).

`python -m benchmarks.micro.test_processor` prints microseconds of CPU per read and per further
request of a read: parsing, queue, pump, a handler that does nothing, encoding, one write. Unlike
figures over sockets, it does not change on a busy machine. As a test each case runs once.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any, Final, cast

from broker.network.buffer_pool import BufferPool
from broker.network.limits import NetworkLimits
from broker.network.processor import Network, Processor
from broker.network.receive_memory import ReceiveMemory
from broker.network.reply import EncodedMessage, Reply
from broker.network.request_channel import RequestChannel
from kafkawire.apis import ApiKey
from kafkawire.headers import encode_request
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ROUNDS: Final = 7
READS: Final = 5_000
REQUESTS_PER_READ: Final = (1, 5, 50)
RECORDS: Final = bytes(1024)
PRODUCE_VERSION: Final = 7
# Size of a Produce response of one partition.
ANSWER: Final = EncodedMessage(bytes(44))
SIZE_AND_CORRELATION_ID_BYTES: Final = 8


class Loop:
    """A loop with only the methods that the pump needs."""

    time = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self.soon: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)


class Transport:
    """A socket that accepts and counts all bytes."""

    def __init__(self) -> None:
        self.sent_bytes = 0

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 4000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert (high, low) == (0, 0)

    def write(self, data: bytes) -> None:
        self.sent_bytes += len(data)


class Owner:
    """An owner of connections that stores none."""

    def on_opened(self, _connection: Processor) -> str | None:
        return None

    def on_closed(self, _connection: Processor) -> None:
        return None


class Bench:
    """One connection with all layers except the handlers."""

    def __init__(self) -> None:
        limits = NetworkLimits()
        self.loop = Loop()
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        channel = RequestChannel(loop, lambda _request: Reply(ANSWER), limits)
        pool = BufferPool()
        channel.on_arenas_unused(pool.recycle)
        network = Network(
            channel=channel,
            pool=pool,
            memory=ReceiveMemory(limits.receive_memory_bytes),
            limits=limits,
            metrics=channel.metrics,
            clock=time.perf_counter,
            read_ahead=lambda _read, _on_end: None,
        )
        self.transport = Transport()
        self.processor = Processor(network, Owner(), "BENCH", is_control_plane=False)
        self.processor.connection_made(cast(asyncio.BaseTransport, self.transport))

    def read(self, data: bytes) -> None:
        """Deliver the data of one read, and run the loop once."""
        memoryview(self.processor.get_buffer(-1))[: len(data)] = data
        self.processor.buffer_updated(len(data))
        while self.loop.soon:
            self.loop.soon.pop()()


def frames(count: int) -> bytes:
    """Return Produce requests of one record batch each."""
    partition = PartitionProduceData(index=0, records=RECORDS)
    topic = TopicProduceData(name="bench", partition_data=[partition])
    message = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    return count * encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "bench", message)


def read_us(bench: Bench, count: int) -> float:
    """Return the CPU microseconds of a read with `count` requests; the best of several rounds."""
    data, best_s = frames(count), float("inf")
    for _ in range(ROUNDS):
        began_s = time.process_time()
        for _ in range(READS):
            bench.read(data)
        best_s = min(best_s, time.process_time() - began_s)
    return best_s * 1e6 / READS


def test_every_request_of_a_read_is_answered_in_one_write() -> None:
    for count in REQUESTS_PER_READ:
        bench = Bench()
        bench.read(frames(count))
        answer_bytes = SIZE_AND_CORRELATION_ID_BYTES + len(ANSWER)
        assert bench.transport.sent_bytes == count * answer_bytes


def main() -> int:
    """Print the cost of reads with one and with several requests."""
    bench = Bench()
    first_us = read_us(bench, REQUESTS_PER_READ[0])
    sys.stdout.write(f"read with 1 request {first_us:6.2f} us\n")
    for count in REQUESTS_PER_READ[1:]:
        further_us = (read_us(bench, count) - first_us) / (count - 1)
        sys.stdout.write(f"each further request of {count:3} {further_us:6.2f} us\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
