"""Malformed input closes the connection that sent it, and does not affect other clients."""

import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.apis import APIS, ApiKey
from kafkawire.compression import Codec
from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.metadata import MetadataRequest
from tests.conftest import BrokerProcess
from tests.integration.broker.wire import Wire, batch
from tests.unit.kafkawire.batches import batch_of, with_section
from tests.waiting import until_sync

OPENS = 10_000
OPEN_AT_ONCE = 20
PARKED = 500


@pytest.fixture
def wire(shared_broker: BrokerProcess) -> Iterator[Wire]:
    """A well-behaved client, connected before the bad one."""
    with Wire(shared_broker.port) as connected:
        connected.create_topic("t")
        yield connected
        assert connected.produce("t", batch(b"still here")).error_code == ErrorCode.NONE


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def header(key: int, version: int) -> bytes:
    return key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(6)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="another protocol"),
        pytest.param(b"\xff\xff\xff\xff", id="negative size"),
        pytest.param((100 * 1024 * 1024 + 1).to_bytes(4, "big"), id="too large a request"),
        pytest.param(framed(b""), id="empty request"),
        pytest.param(framed(b"\0\x03\0"), id="half a header"),
        pytest.param(framed(header(999, 0)), id="unknown API"),
        pytest.param(framed(header(-1, 0)), id="negative API"),
        pytest.param(framed(header(ApiKey.JOIN_GROUP, 0)), id="API without a handler"),
        pytest.param(framed(header(ApiKey.LEADER_AND_ISR, 7)), id="API of brokers"),
        pytest.param(framed(header(ApiKey.METADATA, 13)), id="unsupported version"),
        pytest.param(framed(header(ApiKey.METADATA, -1)), id="negative version"),
        pytest.param(framed(header(ApiKey.FETCH, 3)), id="version that is too old"),
        pytest.param(framed(header(ApiKey.METADATA, 1) + b"\x7f\xff\xff\xff"), id="huge array"),
        pytest.param(framed(header(ApiKey.METADATA, 1) + bytes(99)), id="bytes after the message"),
        pytest.param(framed(header(ApiKey.PRODUCE, 3) + b"\0"), id="half a message"),
    ],
)
def test_malformed_input_closes_only_its_connection(
    shared_broker: BrokerProcess, wire: Wire, data: bytes
) -> None:
    del wire
    with Wire(shared_broker.port) as bad:
        bad.send_bytes(data)
        assert bad.is_closed()


def test_responses_to_earlier_requests_still_arrive(
    shared_broker: BrokerProcess, wire: Wire
) -> None:
    del wire
    with Wire(shared_broker.port) as bad:
        sent = [bad.send(ApiKey.METADATA, 1, MetadataRequest(topics=[])) for _ in range(3)]
        bad.send_bytes(framed(header(999, 0)))
        assert [bad.receive(ApiKey.METADATA, 1)[0] for _ in sent] == sent
        assert bad.is_closed()


@pytest.mark.fresh_seeds(5)
def test_random_bodies_never_break_the_broker(
    shared_broker: BrokerProcess, wire: Wire, seed: int
) -> None:
    del wire
    dice = random.Random(seed)
    served = [(key, api.advertised) for key, api in APIS.items() if api.advertised]
    failures_before = count(shared_broker, "connection.failed")
    for _ in range(200):
        key, (low, high) = dice.choice(served)
        body = header(key, dice.randint(low, high)) + dice.randbytes(dice.randrange(80))
        with Wire(shared_broker.port) as bad:
            bad.send_bytes(framed(body))
            bad.socket.shutdown(socket.SHUT_WR)
            while bad.socket.recv(65_536):
                pass
    assert count(shared_broker, "connection.failed") == failures_before


def count(broker: BrokerProcess, event: str) -> int:
    return sum(1 for seen in broker.events if seen["event"] == event)


@pytest.mark.parametrize("codec", Codec)
def test_noise_under_a_good_checksum_is_refused(
    shared_broker: BrokerProcess, wire: Wire, codec: Codec
) -> None:
    del shared_broker
    noise = with_section(batch_of(codec=codec), random.Random(codec).randbytes(64), 5)
    assert wire.produce("t", bytes(noise)).error_code == ErrorCode.INVALID_RECORD


def test_without_compiled_code_noise_is_refused_too(tmp_path: Path) -> None:
    noise = with_section(batch_of(), random.Random(0).randbytes(64), 5)
    broker = BrokerProcess(tmp_path, {}, {"OTTLA_PURE_PYTHON": "1"})
    try:
        with Wire(broker.port) as wire:
            wire.create_topic("t")
            assert wire.produce("t", bytes(noise)).error_code == ErrorCode.INVALID_RECORD
            assert wire.produce("t", batch(b"good")).base_offset == 0
    finally:
        broker.stop()


def test_an_incomplete_request_does_not_disturb_others(
    shared_broker: BrokerProcess, wire: Wire
) -> None:
    halves = [Wire(shared_broker.port) for _ in range(50)]
    try:
        for half in halves:
            half.send_bytes((1000).to_bytes(4, "big") + b"\0\3")
        offsets = [wire.produce("t", batch(b"a")).base_offset for _ in range(50)]
        assert offsets == list(range(offsets[0], offsets[0] + 50))
    finally:
        for half in halves:
            half.socket.close()


def test_a_client_that_never_reads_does_not_disturb_others(
    shared_broker: BrokerProcess, wire: Wire
) -> None:
    for _ in range(20):
        wire.produce("t", batch(b"x" * 900_000))
    wanted = FetchPartition(fetch_offset=0, partition_max_bytes=1 << 24)
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[wanted])])
    with Wire(shared_broker.port) as deaf:
        for _ in range(50):
            deaf.send(ApiKey.FETCH, 12, request)
        for _ in range(50):
            assert wire.produce("t", batch(b"a")).error_code == ErrorCode.NONE


def descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))  # noqa: PTH208 - counted, not opened


def memory_kib(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_ten_thousand_connections_leave_nothing_behind(
    shared_broker: BrokerProcess, wire: Wire
) -> None:
    def open_and_close(number: int) -> None:
        for _ in range(number // OPEN_AT_ONCE):
            batch_of = [Wire(shared_broker.port) for _ in range(OPEN_AT_ONCE)]
            for each in batch_of:
                each.send(ApiKey.METADATA, 1, MetadataRequest(topics=[]))
            for each in batch_of:
                each.receive(ApiKey.METADATA, 1)
                each.socket.close()

    open_and_close(OPENS // 10)
    wire.fetch("t", 0)
    descriptors_before, memory_before = descriptors(shared_broker), memory_kib(shared_broker)
    open_and_close(OPENS - OPENS // 10)
    wire.fetch("t", 0)
    # A response may arrive before the ends of other connections are handled.
    until_sync(lambda: descriptors(shared_broker) <= descriptors_before, "closed sockets")
    assert memory_kib(shared_broker) - memory_before < 10_000


def test_parked_fetches_of_vanished_clients_leave_nothing_behind(
    shared_broker: BrokerProcess, wire: Wire
) -> None:
    end = wire.fetch("t", 0).high_watermark
    wanted = FetchPartition(fetch_offset=end, partition_max_bytes=100)
    request = FetchRequest(
        max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted])]
    )
    before = descriptors(shared_broker)
    parked: list[Wire] = []
    for number in range(PARKED):
        parked.append(Wire(shared_broker.port))
        parked[-1].send(ApiKey.FETCH, 12, request)
        if number % OPEN_AT_ONCE == 0:
            # Lets the broker accept: with a full backlog, further connects would wait.
            wire.fetch("t", end)
    for each in parked:
        each.socket.close()
    wire.fetch("t", end)
    until_sync(lambda: descriptors(shared_broker) <= before, "closed sockets")
    answer = wire.produce("t", batch(b"a"))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, end)
