"""A marker that the network delivers late does not end the next transaction (KAFKA-19446)."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import unpack_from
from typing import Final, Self

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.records import ControlType
from tests.integration.broker.broker_cluster import BrokerCluster
from tests.integration.broker.test_transaction_coordinator import begin, markers
from tests.integration.broker.transactional_client import TransactionalClient
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator, wait_until
from tests.unit.storage.produced_batches import produced

COORDINATOR, LEADER = 1, 2
TOPIC: Final = "t"
T0: Final = TopicPartition(TOPIC, 0)
HOST: Final = "127.0.0.1"
LENGTH_BYTES: Final = 4
SETTINGS: Final = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    # The records of tests are old, and would roll to a segment before each marker.
    "log.roll.hours": "1000000",
    # Time after which a coordinator gives a request for markers up.
    "request.timeout.ms": "1000",
}


class HoldingProxy:
    """Forwards connections, but holds the first request for markers until `release`.

    It keeps its own connection for that request open when the sender closes the other half.
    """

    def __init__(self) -> None:
        self.target_port = 0
        self.held: tuple[socket.socket, bytes] | None = None
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = [self._listener]

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_trouble: object) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def release(self) -> None:
        """Deliver the held request."""
        assert self.held is not None
        upstream, request = self.held
        upstream.sendall(request)

    def _start(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                upstream = socket.create_connection((HOST, self.target_port))
                self._sockets += [client, upstream]
                self._start(self._forward_requests, client, upstream)
                self._start(self._forward_responses, upstream, client)

    def _forward_requests(self, client: socket.socket, upstream: socket.socket) -> None:
        with suppress(OSError), client.makefile("rb") as requests:
            while length := requests.read(LENGTH_BYTES):
                request = length + requests.read(int.from_bytes(length, "big"))
                [api_key] = unpack_from(">h", request, LENGTH_BYTES)
                if api_key == ApiKey.WRITE_TXN_MARKERS and self.held is None:
                    self.held = upstream, request
                    return
                upstream.sendall(request)
            upstream.shutdown(socket.SHUT_WR)

    def _forward_responses(self, upstream: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := upstream.recv(65_536):
                client.sendall(data)


@pytest.fixture
def proxy() -> Iterator[HoldingProxy]:
    with HoldingProxy() as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path, proxy: HoldingProxy) -> Iterator[BrokerCluster]:
    """A broker that coordinates, and another one, which the first reaches through the proxy."""
    coordinator = Coordinator(tmp_path / "coordinator")
    try:
        with BrokerCluster(tmp_path, coordinator.address, SETTINGS) as made:
            made.start(COORDINATOR)
            with made.wire(COORDINATOR) as wire:
                client = TransactionalClient(wire, "first")
                client.until_done(client.find)
            proxy.target_port = made.port(LEADER)
            made.start(LEADER, **{"advertised.listeners": f"PLAINTEXT://{HOST}:{proxy.port}"})
            made.until_all_say(lambda each: len(made.metadata(each).brokers) == 2)
            made.create_topic(TOPIC, [[LEADER]])
            yield made
    finally:
        coordinator.kill()


def produce(wire: Wire, client: TransactionalClient, sequence: int) -> None:
    identity = client.producer
    batch = produced(identity.producer_id, sequence, epoch=identity.epoch, is_transactional=True)
    answer = wire.produce(TOPIC, bytes(batch), transactional_id=client.transactional_id)
    assert answer.error_code == ErrorCode.NONE


def test_marker_that_arrives_after_its_repetition_does_not_end_the_next_transaction(
    cluster: BrokerCluster, proxy: HoldingProxy
) -> None:
    with cluster.wire(COORDINATOR) as wire, Wire(proxy.target_port) as leader:
        client = begin(wire)
        client.until_done(lambda: client.add(T0))
        produce(leader, client, 0)
        assert client.end() == ErrorCode.NONE
        # The coordinator sends the marker again on another connection.
        wait_until(lambda: client.describe().transaction_state == "CompleteCommit")
        assert proxy.held is not None
        client.until_done(lambda: client.add(T0))
        produce(leader, client, 1)
        proxy.release()
        cluster.brokers[LEADER].wait_for_event("markers.late")
        assert leader.fetch(TOPIC, 0, isolation_level=1).last_stable_offset == 2
        assert client.end(is_commit=False) == ErrorCode.NONE
        wait_until(lambda: client.describe().transaction_state == "CompleteAbort")
        epoch = client.producer.epoch
        assert markers(leader, T0) == [(ControlType.COMMIT, epoch), (ControlType.ABORT, epoch)]
