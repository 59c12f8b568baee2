"""The HTTP status pages of a broker, from its start to its stop."""

import asyncio
import contextlib
import http.client
import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from monitoring import status_server
from monitoring.status_server import MAX_CONNECTIONS, Answer, StatusServer
from tests.conftest import READY_EVENT, READY_TIMEOUT_S, BrokerProcess, StartBroker
from tests.integration.broker.broker_cluster import BrokerCluster
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator, wait_until
from tests.ports import free_port
from tests.waiting import until

LISTENER = {"metrics.listener": "127.0.0.1:0"}
KAFKAS_TASKS = {
    "kafka-log-retention",
    "kafka-log-flusher",
    "kafka-recovery-point-checkpoint",
    "kafka-log-start-offset-checkpoint",
    "kafka-delete-logs",
}
STATE = "kafka_server_kafkaserver_brokerstate"
CONTROLLERS = "kafka_controller_kafkacontroller_activecontrollercount"
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
DURATION = "ottla_request_duration_seconds"
PRODUCED = 5
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_TIMEOUT_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def open_file_count() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def metrics(port: int) -> dict[str, float]:
    _, text = get(port, "/metrics")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def port_of(broker: BrokerProcess) -> int:
    address = str(broker.wait_for_event("status.listening")["address"])
    return int(address.rpartition(":")[2])


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker(overrides=LISTENER)


def test_metrics_tasks_and_startup_steps_are_served(broker: BrokerProcess) -> None:
    port = port_of(broker)
    with Wire(broker.port) as wire:
        wire.create_topic("t")
    found = metrics(port)
    assert (found[STATE], found[CONTROLLERS]) == (3, 1)
    assert found["kafka_server_replicamanager_leadercount"] == 1
    tasks = {each["name"]: each for each in json.loads(get(port, "/tasks")[1])}
    assert tasks.keys() >= KAFKAS_TASKS
    assert tasks["kafka-log-retention"]["next_run_s"] > 0
    assert tasks["log-dir-space"]["last_run_s"] <= 0
    assert tasks["kafka-log-flusher"]["next_run_s"] is None, "by default never"
    steps = [each["step"] for each in json.loads(get(port, "/startup")[1])]
    logged = [event["step"] for event in broker.events if event["event"] == "startup.step"]
    assert steps == logged
    assert steps.index("logs, meta.properties") < steps.index("registration, controller")
    assert steps.index("registration, controller") < steps.index("request processing")


def test_request_durations_are_a_histogram_by_api(broker: BrokerProcess) -> None:
    port = port_of(broker)
    assert not [name for name in metrics(port) if 'request="Produce"' in name], (
        "there was no produce request yet"
    )
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        for _ in range(PRODUCED):
            wire.produce("t", batch(b"x"))
    found = metrics(port)
    assert found[f'{DURATION}_count{{request="Produce"}}'] == PRODUCED
    assert 0 < found[f'{DURATION}_sum{{request="Produce"}}'] < PRODUCED * 10
    counts = [count for name, count in found.items() if f'{DURATION}_bucket{{request="Pro' in name]
    assert counts == sorted(counts)
    assert counts[-1] == PRODUCED
    assert found["kafka_server_socket_server_metrics_incoming_byte_total"] > PRODUCED * len(
        batch(b"x")
    )
    assert found["kafka_server_delayedoperationpurgatory_purgatorysize"] == 0


def test_a_broker_without_its_coordinator_is_alive_and_not_ready(
    coordinator: Coordinator, start_broker: StartBroker
) -> None:
    broker = start_broker(overrides={**LISTENER, "zookeeper.connect": coordinator.address})
    port = port_of(broker)
    assert get(port, "/readyz") == (200, "ok\n")
    coordinator.kill()
    wait_until(lambda: get(port, "/readyz")[0] == 503)
    assert get(port, "/readyz")[1] == "the broker is not registered with the coordinator\n"
    assert get(port, "/healthz") == (200, "ok\n")
    coordinator.start()
    wait_until(lambda: get(port, "/readyz")[0] == 200)


def test_other_requests_get_an_error_status(broker: BrokerProcess) -> None:
    port = port_of(broker)
    assert get(port, "/nothing") == (404, "/metrics\n/healthz\n/readyz\n/tasks\n/startup\n")
    assert get(port, "/metrics", "POST")[0] == 405
    # The number of bytes read before the broker disconnects is subject to a race.
    with (
        socket.create_connection(("127.0.0.1", port), timeout=READY_TIMEOUT_S) as rude,
        contextlib.suppress(ConnectionError),
    ):
        rude.sendall(b"x" * 100_000 + b"\r\n\r\n")
        rude.recv(1)
    assert get(port, "/metrics")[0] == 200


def test_broker_state_changes_from_start_to_stop(tmp_path: Path) -> None:
    """Kafka's numbers: 1 starting, 2 recovering, 3 running, 6 handing over, 7 stopping."""
    port = free_port()
    overrides = {"metrics.listener": f"127.0.0.1:{port}"}
    first = BrokerProcess(tmp_path, overrides)
    first.wait_for_event(READY_EVENT)
    with Wire(first.port) as wire:
        wire.create_topic("t", partitions=100)
        for partition in range(100):
            wire.produce("t", batch(b"x"), partition=partition)
    first.kill()
    seen: list[float] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            try:
                state = metrics(port)[STATE]
            except (OSError, KeyError, http.client.HTTPException):
                continue
            if seen[-1:] != [state]:
                seen.append(state)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        again = BrokerProcess(tmp_path, overrides)
        again.wait_for_event(READY_EVENT)
        wait_until(lambda: 3 in seen)
        again.stop()
    finally:
        is_over.set()
        watcher.join()
    # The last response may come from a broker that has already stopped.
    lived = seen[:-1] if seen[-1] == 0 else seen
    assert lived == sorted(lived)
    assert {1, 2, 3} <= set(lived) <= {1, 2, 3, 6, 7}


@pytest.fixture
def cluster(tmp_path: Path, coordinator: Coordinator) -> Iterator[BrokerCluster]:
    with BrokerCluster(tmp_path, coordinator.address, LISTENER) as made:
        made.start(1, 2, 3)
        yield made


def test_gauges_report_the_controller_and_lagging_replicas(
    cluster: BrokerCluster,
) -> None:
    ports = {each: port_of(broker) for each, broker in cluster.brokers.items()}
    assert sum(metrics(port)[CONTROLLERS] for port in ports.values()) == 1
    cluster.create_topic("t", [[1, 2], [2, 1]], unclean_leader_election_enable="true")
    cluster.until_in_sync("t", {1, 2}, {1, 2})
    with cluster.wire(1) as wire:
        wire.produce("t", batch(b"a"))
    cluster.brokers[2].kill()
    wait_until(lambda: metrics(ports[1])[UNDER_REPLICATED] == 2)
    cluster.brokers[1].process.send_signal(signal.SIGKILL)
    cluster.start(2)
    wait_until(lambda: cluster.leaders(3, "t") == [2, 2])
    controller = cluster.controller(3)
    port = ports[3] if controller == 3 else port_of(cluster.brokers[controller])
    assert metrics(port)[UNCLEAN] == 2


@pytest.mark.parametrize("sent", [b"", b"GET /long HTTP/1.1\r\n\r\n"])
async def test_clients_that_send_or_read_nothing_do_not_keep_others_out(sent: bytes) -> None:
    page = "x" * 16 * 1024 * 1024
    pages = {"/healthz": lambda: Answer("ok\n"), "/long": lambda: Answer(page)}
    server = StatusServer("127.0.0.1", 0, pages)
    await server.start()
    clients = [
        socket.create_connection(("127.0.0.1", server.port)) for _ in range(MAX_CONNECTIONS + 1)
    ]
    try:
        for client in clients:
            client.sendall(sent)
        await until(lambda: len(server._open) == MAX_CONNECTIONS, "the limit is reached")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert b" 200 " in await reader.readline()
        writer.close()
        assert len(server._open) <= MAX_CONNECTIONS
    finally:
        for client in clients:
            client.close()
        await until(lambda: not server._open, "all are closed")
        await server.stop()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_readers_that_do_not_read_hold_no_socket_after_the_time_limit(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_server, "REQUEST_TIMEOUT_S", 0.2)
    page = "x" * 16 * 1024 * 1024

    async def scenario() -> None:
        server = StatusServer("127.0.0.1", 0, {"/metrics": lambda: Answer(page)})
        await server.start()
        listening_count = open_file_count()
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        await until(lambda: len(server._open) == len(clients), "all are accepted")
        await until(lambda: not server._open, "all are given up")
        await until(lambda: open_file_count() <= listening_count + len(clients), "all are closed")
        for client in clients:
            client.close()
        await server.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
