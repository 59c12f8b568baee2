"""A consumer fetches exactly the batch bytes that the producer sent.

A recording proxy between another client's producer and the broker keeps every batch, and a raw
Fetch then reads them. Only the base offset and the leader epoch may differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from kafkawire.apis import ApiKey
from kafkawire.headers import decode_request_header, decode_response_header, encode_request
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkawire.messages.produce import ProduceRequest
from kafkawire.records import iterate_batches
from kafkawire.schema import decode
from tests.conftest import StartBroker
from tests.frames import SIZE_BYTES, frames_of
from tests.interop.clients.drivers import WRITERS
from tests.interop.clients.sample import samples
from tests.ports import free_port

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS: Final = 300
FETCH_VERSION: Final = 12
FETCH_BYTES: Final = 4 * 1024 * 1024
READ_BYTES: Final = 65536


class RecordingProxy:
    """Forwards bytes in both directions, and keeps the batches of every Produce request."""

    def __init__(self, port: int) -> None:
        self.batches: list[bytes] = []
        self._broker_port = port
        self._connections: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def serve(self, port: int) -> AsyncIterator[None]:
        """Listen on `port` for as long as the block runs."""
        server = await asyncio.start_server(self._on_client, "127.0.0.1", port)
        try:
            yield
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.append(task)
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._broker_port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_requests(reader, upstream))
                group.create_task(self._pass(upstream_reader, writer))
        finally:
            upstream.close()
            writer.close()

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async for frame in frames_of(reader):
            self._record(frame)
            writer.write(len(frame).to_bytes(SIZE_BYTES, "big") + frame)
            await writer.drain()
        writer.write_eof()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(READ_BYTES):
            writer.write(data)
            await writer.drain()

    def _record(self, frame: memoryview) -> None:
        header, start = decode_request_header(frame)
        if header.api_key != ApiKey.PRODUCE:
            return
        request = decode(ProduceRequest, frame[start:], header.api_version)
        for topic in request.topic_data:
            for partition in topic.partition_data:
                assert isinstance(partition.records, memoryview)
                self.batches.append(bytes(partition.records))


async def fetch_everything(port: int, topic: str) -> bytes:
    """Return the bytes of partition 0 from offset 0, as in the response to one raw Fetch."""
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=0, partition_max_bytes=FETCH_BYTES)],
            )
        ],
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode_request(ApiKey.FETCH, FETCH_VERSION, 1, "test", request))
    size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
    frame = memoryview(await reader.readexactly(size))
    writer.close()
    _, start = decode_response_header(ApiKey.FETCH, FETCH_VERSION, frame)
    response = decode(FetchResponse, frame[start:], FETCH_VERSION)
    records = response.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    return bytes(records)


def without_broker_fields(batch: bytes | memoryview) -> bytes:
    """Blank the two fields that the broker assigns: base offset and leader epoch."""
    return bytes(8) + bytes(batch[8:12]) + bytes(4) + bytes(batch[16:])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", ["ottla", "aiokafka", "confluent", "kafka-python"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_fetched_batches_have_the_bytes_of_the_producer(
    start_broker: StartBroker, writer: str, codec: str
) -> None:
    proxy_port, inner_port = free_port(), free_port()
    # The broker's controller must reach the broker without the proxy, which listens later.
    inner = f"INNER://127.0.0.1:{inner_port}"
    broker = start_broker(
        overrides={
            "listeners": f"PLAINTEXT://127.0.0.1:0,{inner}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port},{inner}",
            "listener.security.protocol.map": "INNER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
        }
    )
    proxy = RecordingProxy(broker.port)
    async with proxy.serve(proxy_port):
        records = list(samples(RECORDS, seed=5))
        address = f"127.0.0.1:{proxy_port}"
        # In a thread: most of these clients block, and the proxy must keep running.
        await asyncio.to_thread(
            lambda: asyncio.run(WRITERS[writer](address, "same", codec, records))
        )
    stored = [
        bytes(batch) for _, batch in iterate_batches(await fetch_everything(broker.port, "same"))
    ]
    assert proxy.batches, "the proxy saw no batch, so this proves nothing"
    assert [without_broker_fields(b) for b in stored] == [
        without_broker_fields(b) for b in proxy.batches
    ]
