"""Start of a broker under various conditions of disk, coordinator and environment."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from clusterstate.broker_registration import Sessions, create_top_nodes, register
from clusterstate.coordinator_edge import CoordinatorEdge
from clusterstate.znodes import paths
from clusterstate.znodes.controller_node import encode_controller, encode_controller_epoch
from clusterstate.znodes.registration import Endpoint, Registration, decode_registration
from coordination.client import Client
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicId
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from kafkawire.update_type import UpdateType
from speedups import import_path
from tests.conftest import READY_EVENT, READY_TIMEOUT_S, BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator


def test_an_unusable_log_dir_does_not_affect_the_others(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    good = tmp_path / "good"
    broker = start_broker(good, {"log.dirs": f"{good},{tmp_path / 'file'}"})
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        assert wire.produce("t", batch(b"a")).error_code == ErrorCode.NONE
    assert (good / "t-0").is_dir()


def test_a_second_process_on_a_log_dir_leaves_the_first_ones_session_alone(
    coordinator: Coordinator, start_broker: StartBroker
) -> None:
    """The same holds for a process in another container, which cannot see the first one."""
    overrides = {"zookeeper.connect": coordinator.address, "broker.id": "1"}
    first = start_broker(None, overrides)
    file = first.data_dir / "coordinator-session"
    saved = json.loads(file.read_text())
    file.write_text(json.dumps({**saved, "started": "0", "boot_id": "of another machine"}))
    before = file.read_text()

    second = BrokerProcess(first.data_dir, overrides)
    assert second.process.wait(READY_TIMEOUT_S) == 1
    second.kill()
    assert "is in use by another broker" in second.log_tail()
    assert file.read_text() == before
    assert asyncio.run(owner_of(coordinator, paths.broker(1))) == saved["session_id"]


def test_a_signal_ends_a_start_that_waits_for_the_coordinator(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker = BrokerProcess(
            tmp_path / "broker",
            {
                "zookeeper.connect": f"127.0.0.1:{silent.getsockname()[1]}",
                "zookeeper.connection.timeout.ms": "3600000",
            },
        )
        try:
            silent.settimeout(READY_TIMEOUT_S)
            silent.accept()[0].close()
            broker.process.send_signal(signal.SIGTERM)
            assert broker.process.wait(READY_TIMEOUT_S) == 0
        finally:
            broker.kill()
    assert [each["event"] for each in broker.events][-1] == "broker.stopped"


async def owner_of(coordinator: Coordinator, path: str) -> int | None:
    async with Client(coordinator.address, has_heartbeat_thread=False) as client:
        stat = await client.exists(path)
        return None if stat is None else stat.ephemeral_owner


def test_brokers_without_ids_may_start_concurrently(
    tmp_path: Path, coordinator: Coordinator
) -> None:
    """They start below a chroot that does not exist yet."""
    overrides = {"zookeeper.connect": f"{coordinator.address}/ottla/one"}
    brokers = [BrokerProcess(tmp_path / f"broker-{number}", overrides) for number in range(3)]
    try:
        identities = [broker.wait_for_event("broker.identified") for broker in brokers]
        assert sorted(int(str(each["broker_id"])) for each in identities) == [1001, 1002, 1003]
        assert len({each["cluster_id"] for each in identities}) == 1
        for broker, identity in zip(brokers, identities, strict=True):
            broker.wait_for_event(READY_EVENT)
            written = (broker.data_dir / "meta.properties").read_text().splitlines()
            assert f"broker.id={identity['broker_id']}" in written
            assert f"cluster.id={identity['cluster_id']}" in written
        created, owners = asyncio.run(look(coordinator.address))
        assert created == {"/ottla/one" + path for path in paths.PERSISTENT}
        assert {path: owner != 0 for path, owner in owners.items()} == {
            paths.broker(1001): True,
            paths.CONTROLLER: True,
            paths.CONTROLLER_EPOCH: False,
            paths.CLUSTER_ID: False,
        }
    finally:
        for broker in brokers:
            broker.kill()


async def look(address: str) -> tuple[set[str], dict[str, int]]:
    """Return the existing nodes of Kafka, and the owner sessions of the ephemeral ones."""
    async with Client(address, has_heartbeat_thread=False) as outside:
        wanted = ["/ottla/one" + path for path in paths.PERSISTENT]
        created = {path for path in wanted if await outside.exists(path) is not None}
    async with Client(f"{address}/ottla/one", has_heartbeat_thread=False) as client:
        owners = {}
        for path in (
            paths.broker(1001),
            paths.CONTROLLER,
            paths.CONTROLLER_EPOCH,
            paths.CLUSTER_ID,
        ):
            stat = await client.exists(path)
            assert stat is not None, path
            owners[path] = stat.ephemeral_owner
    return created, owners


async def test_a_broker_that_starts_answers_clients_once_it_has_all_partitions(
    tmp_path: Path, coordinator: Coordinator
) -> None:
    """Broker 7 is the controller; the test sends its requests."""
    async with Client(coordinator.address, session_timeout_ms=40_000) as client:
        edge = CoordinatorEdge(client, lambda _: None)
        await edge.run(create_top_nodes())
        here = Registration(broker_id=BrokerId(7), endpoints=(Endpoint("X", "127.0.0.1", 1),))
        data = here.encode(timestamp_ms=0)
        await edge.run(register(BrokerId(7), data, Sessions(client.session_id)))
        await client.create(paths.CONTROLLER, encode_controller(BrokerId(7), 0), ephemeral=True)
        await client.create(paths.CONTROLLER_EPOCH, encode_controller_epoch(1))
        overrides = {"zookeeper.connect": coordinator.address, "broker.id": "1"}
        broker = BrokerProcess(tmp_path / "broker", overrides)
        try:
            await asyncio.to_thread(broker.wait_for_event, "broker.registered")
            found, stat = await client.get_data(paths.broker(1))
            [endpoint] = decode_registration(BrokerId(1), found).endpoints
            with Wire(endpoint.port) as controller, Wire(endpoint.port) as asking:
                asking.send(ApiKey.METADATA, 12, MetadataRequest(topics=None))
                # Enough requests for a premature response, if the broker took one for the last.
                some = [(UpdateType.INCREMENTAL, 1)] * 20
                for kind, count in (*some, (UpdateType.UNKNOWN, 3)):
                    sent = update_metadata(stat.czxid, kind, endpoint, count)
                    answer = controller.ask(ApiKey.UPDATE_METADATA, 8, sent, UpdateMetadataResponse)
                    assert answer.error_code == ErrorCode.NONE
                _, metadata = asking.receive(ApiKey.METADATA, 12)
        finally:
            broker.kill()
    assert isinstance(metadata, MetadataResponse)
    assert [len(topic.partitions) for topic in metadata.topics] == [3]


def update_metadata(
    broker_epoch: int, kind: UpdateType, endpoint: Endpoint, partition_count: int
) -> UpdateMetadataRequest:
    states = [
        UpdateMetadataPartitionState(partition_index=number, leader=1, isr=[1], replicas=[1])
        for number in range(partition_count)
    ]
    topic = UpdateMetadataTopicState(
        topic_name="orders", topic_id=TopicId(int=7), partition_states=states
    )
    where = UpdateMetadataEndpoint(
        port=endpoint.port, host=endpoint.host, listener=endpoint.listener, security_protocol=0
    )
    return UpdateMetadataRequest(
        controller_id=7,
        controller_epoch=1,
        broker_epoch=broker_epoch,
        type=int(kind),
        topic_states=[topic],
        live_brokers=[UpdateMetadataBroker(id=1, endpoints=[where])],
    )


def test_a_broker_starts_in_a_project_with_packages_of_these_names(tmp_path: Path) -> None:
    project = tmp_path / "app"
    for name in ("storage", "coordination", "controller", "kafkawire"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise ImportError('of the project')")
    environment = {"PYTHONPATH": os.pathsep.join([str(project), import_path.ROOT])}
    broker = BrokerProcess(tmp_path / "data", {}, environment)
    try:
        broker.wait_for_event(READY_EVENT)
        assert broker.stop() == 0
    finally:
        broker.kill()


THREAD_LIMIT = """
import threading

start, numbers = threading._start_new_thread, iter(range(LIMIT))

def start_if_allowed(*arguments):
    if next(numbers, None) is None:
        raise RuntimeError("can't start new thread")
    return start(*arguments)

threading._start_new_thread = start_if_allowed
"""
"""Has the effect of a limit of the system, at an exact number of threads."""

BROKER_IN_D = [
    "--override=log.dirs=d",
    "--override=listeners=PLAINTEXT://127.0.0.1:0",
]


@pytest.mark.parametrize(
    ("limit", "program"),
    [
        pytest.param(0, ["broker", *BROKER_IN_D], id="coordinator in a broker"),
        pytest.param(2, ["broker", *BROKER_IN_D], id="broker"),
        pytest.param(0, ["coordination", "--data-dir=d", "--listen=127.0.0.1:0"], id="coordinator"),
    ],
)
def test_a_start_without_enough_threads_ends_with_one_sentence(
    tmp_path: Path, limit: int, program: Sequence[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(THREAD_LIMIT.replace("LIMIT", str(limit)))
    ended = subprocess.run(
        [sys.executable, "-m", *program],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=READY_TIMEOUT_S,
    )
    assert ended.returncode == 1
    assert "the system starts no more threads: raise its limits" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("key", ["listeners", "zookeeper.connect"])
def test_a_name_that_no_resolver_knows_is_named_with_the_reason(tmp_path: Path, key: str) -> None:
    values = {"listeners": "PLAINTEXT://unknown.invalid:0", "zookeeper.connect": "unknown.invalid"}
    overrides = {key: values[key], "zookeeper.connection.timeout.ms": "500"}
    broker = BrokerProcess(tmp_path / "data", overrides)
    error = broker.wait_for_event("broker.not_started", READY_TIMEOUT_S)["error"]
    broker.kill()
    assert "unknown.invalid" in str(error)
    assert "unknown error" not in str(error)
