"""Three brokers on one coordinator: cooperation, and refusal of illegal members."""

import asyncio
import itertools
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import ottla
from clusterstate.znodes import paths
from coordination.client import Client, SessionState, session_file
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kafkawire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kafkawire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from kafkawire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.client.network.cluster import Cluster
from tests.conftest import BrokerProcess
from tests.integration.broker.broker_cluster import IDS, BrokerCluster
from tests.integration.broker.test_lifecycle import overridden, try_to_start
from tests.integration.broker.wire import batch
from tests.integration.coordination.process import Coordinator, wait_until

names = (f"cluster-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def cluster(
    shared_coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    """Three brokers for tests that leave them running; each test uses its own topics."""
    overrides = {"log.segment.delete.delay.ms": "1", "log.initial.task.delay.ms": "0"}
    directory = tmp_path_factory.mktemp("cluster")
    with BrokerCluster(directory, shared_coordinator.address, overrides) as made:
        made.start(*IDS)
        made.until_all_say(lambda each: len(made.metadata(each).brokers) == 3)
        yield made


def test_all_brokers_agree_on_live_brokers_and_controller(cluster: BrokerCluster) -> None:
    said = [cluster.metadata(asked) for asked in IDS]
    assert {response.cluster_id for response in said} == {said[0].cluster_id}
    assert {response.controller_id for response in said} <= set(IDS)
    assert len({response.controller_id for response in said}) == 1
    assert [{each.node_id for each in response.brokers} for response in said] == [set(IDS)] * 3


def test_only_the_controller_administers(cluster: BrokerCluster) -> None:
    other = next(each for each in IDS if each != cluster.controller(1))
    topic = CreatableTopic(name="never", num_partitions=1, replication_factor=1)
    with cluster.wire(other) as wire:
        created = wire.ask(
            ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse
        )
        deleted = wire.ask(
            ApiKey.DELETE_TOPICS,
            5,
            DeleteTopicsRequest(topic_names=["never"]),
            DeleteTopicsResponse,
        )
        growth = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="never", count=2)])
        grown = wire.ask(ApiKey.CREATE_PARTITIONS, 3, growth, CreatePartitionsResponse)
        elected = wire.ask(
            ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=None),
            ElectLeadersResponse,
        )  # fmt: skip
        moved = wire.ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            AlterPartitionReassignmentsRequest(topics=[]),
            AlterPartitionReassignmentsResponse,
        )
        listed = wire.ask(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            0,
            ListPartitionReassignmentsRequest(),
            ListPartitionReassignmentsResponse,
        )
    codes = [
        created.topics[0].error_code,
        deleted.responses[0].error_code,
        grown.results[0].error_code,
        elected.error_code,
        moved.error_code,
        listed.error_code,
    ]
    assert codes == [ErrorCode.NOT_CONTROLLER] * 6


def test_any_broker_creates_a_requested_topic(cluster: BrokerCluster) -> None:
    name = next(names)
    for asked in IDS:
        with cluster.wire(asked) as wire:
            wire.ask_for_topic(name)
    cluster.until_all_say(lambda asked: len(cluster.partitions(asked, name)) == 1)
    cluster.until_all_say(lambda asked: cluster.leaders(asked, name)[0] in IDS)


def reassign(
    cluster: BrokerCluster, name: str, replicas: list[int] | None
) -> AlterPartitionReassignmentsResponse:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=0, replicas=replicas)],
            )
        ]
    )
    with cluster.wire(cluster.controller(1)) as wire:
        return wire.ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request, AlterPartitionReassignmentsResponse
        )


def test_a_partition_moves_with_its_records(cluster: BrokerCluster) -> None:
    name = next(names)
    cluster.create_topic(name, [[1]])
    with cluster.wire(1) as wire:
        wire.produce(name, batch(b"a", b"b", b"c"))
    answer = reassign(cluster, name, [3, 2])
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    cluster.until_in_sync(name, {2, 3})
    cluster.until_all_say(lambda asked: cluster.leaders(asked, name) == [3])
    with cluster.wire(3) as wire:
        assert wire.fetch(name, 0).high_watermark == 3
        assert wire.produce(name, batch(b"d")).base_offset == 3
    with cluster.wire(cluster.controller(1)) as wire:
        listed = wire.ask(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            0,
            ListPartitionReassignmentsRequest(),
            ListPartitionReassignmentsResponse,
        )
    assert (listed.error_code, listed.topics) == (ErrorCode.NONE, [])
    wait_until(lambda: not (cluster.data_dir(1) / f"{name}-0").exists())


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
    ids=str,
)
def test_an_invalid_reassignment_changes_nothing(
    cluster: BrokerCluster, replicas: list[int] | None, code: ErrorCode
) -> None:
    name = next(names)
    cluster.create_topic(name, [[1]])
    answer = reassign(cluster, name, replicas)
    assert answer.responses[0].partitions[0].error_code == code
    assert [list(each.replica_nodes) for each in cluster.partitions(1, name)] == [[1]]


@pytest.mark.parametrize("version", [4, 8])
def test_control_requests_of_a_false_controller_are_refused(
    cluster: BrokerCluster, version: int
) -> None:
    forged = UpdateMetadataRequest(
        controller_id=7,
        controller_epoch=2**31 - 1,
        broker_epoch=-1,
        topic_states=[],
        live_brokers=[],
    )
    with cluster.wire(1) as wire:
        answer = wire.ask(ApiKey.UPDATE_METADATA, version, forged, UpdateMetadataResponse)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    with cluster.wire(1) as wire:
        forged.broker_epoch = 2**62
        wire.send(ApiKey.UPDATE_METADATA, 8, forged)
        assert wire.is_closed(), "it may be a controller that is not known yet"
    # Requests of the real controller are still accepted.
    cluster.create_topic(next(names), [(1, 2)])


def test_a_stranger_cannot_request_the_shutdown_of_a_broker(cluster: BrokerCluster) -> None:
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    with cluster.wire(cluster.controller(1)) as wire:
        for version in (2, 3):
            answer = wire.ask(
                ApiKey.CONTROLLED_SHUTDOWN, version, request, ControlledShutdownResponse
            )
            assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def end_session_of(cluster: BrokerCluster, broker_id: int) -> None:
    """End a broker's session while the broker sleeps, like the coordinator after a timeout."""
    process = cluster.brokers[broker_id].process
    process.send_signal(signal.SIGSTOP)
    try:
        asyncio.run(end_saved_session(cluster, broker_id))
    finally:
        process.send_signal(signal.SIGCONT)


async def end_saved_session(cluster: BrokerCluster, broker_id: int) -> None:
    saved = await session_file.load(cluster.data_dir(broker_id) / "coordinator-session")
    assert saved is not None
    client = Client(saved.connect_string, has_heartbeat_thread=False)
    assert await client.resume(saved.session_id, saved.password)
    assert client.state is SessionState.CONNECTED
    await client.close()


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_broker_that_loses_its_session_comes_back_under_a_new_epoch(
    cluster: BrokerCluster, is_controller: bool
) -> None:
    name = next(names)
    cluster.create_topic(name, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    controller = cluster.controller(1)
    lost = controller if is_controller else next(each for each in IDS if each != controller)
    epochs = registrations(cluster.brokers[lost])
    end_session_of(cluster, lost)
    wait_until(lambda: len(registrations(cluster.brokers[lost])) > len(epochs))
    assert registrations(cluster.brokers[lost])[-1] > epochs[-1]
    cluster.until_in_sync(name, {1, 2, 3}, {1, 2, 3}, {1, 2, 3})
    cluster.until_all_say(lambda asked: -1 not in cluster.leaders(asked, name))
    # Metadata may still be older than the end of the session: a producer retries.
    for index in range(3):
        wait_until(partial(takes_a_record, cluster, name, index))


def takes_a_record(cluster: BrokerCluster, name: str, index: int) -> bool:
    """Return whether the leader in the metadata of broker 1 appends a record to one partition."""
    with cluster.wire(cluster.leaders(1, name)[index]) as wire:
        error_code = wire.produce(name, batch(b"x"), partition=index).error_code
    assert error_code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return error_code == ErrorCode.NONE


def registrations(broker: BrokerProcess) -> list[int]:
    """Return the epochs of a broker's registrations so far."""
    return [
        int(str(event["broker_epoch"]))
        for event in broker.events
        if event["event"] == "broker.registered"
    ]


def test_leadership_returns_to_the_preferred_replica_when_asked(cluster: BrokerCluster) -> None:
    name = next(names)
    cluster.create_topic(name, [[1, 2, 3]])
    lead_elsewhere(cluster, name)
    request = ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=name, partitions=[0])], timeout_ms=10_000
    )
    with cluster.wire(cluster.controller(2)) as wire:
        answer = wire.ask(ApiKey.ELECT_LEADERS, 2, request, ElectLeadersResponse)
        results = answer.replica_election_results[0].partition_result
        assert [each.error_code for each in results] == [ErrorCode.NONE]
        again = wire.ask(ApiKey.ELECT_LEADERS, 2, request, ElectLeadersResponse)
        results = again.replica_election_results[0].partition_result
        assert [each.error_code for each in results] == [ErrorCode.ELECTION_NOT_NEEDED]
    cluster.until_all_say(lambda asked: cluster.leaders(asked, name) == [1])


def lead_elsewhere(cluster: BrokerCluster, name: str) -> None:
    """Take the leadership of a topic's only partition from broker 1, which stays in sync."""
    end_session_of(cluster, 1)
    cluster.until_all_say(lambda asked: cluster.leaders(asked, name) not in ([1], [-1]))
    cluster.until_in_sync(name, {1, 2, 3})


def test_a_producer_follows_the_leader_that_a_refusal_names(
    cluster: BrokerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(names)
    cluster.create_topic(name, [[1, 2, 3]])
    lead_elsewhere(cluster, name)

    async def follow() -> None:
        bootstrap = ",".join(f"127.0.0.1:{cluster.brokers[each].port}" for each in IDS)
        async with ottla.Producer(bootstrap) as producer:
            assert (await producer.send_and_wait(name, b"at the old leader")).offset == 0
            async with ottla.Admin(bootstrap) as admin:
                await admin.elect_leaders([TopicPartition(name, 0)])
            cluster.until_all_say(lambda asked: cluster.leaders(asked, name) == [1])
            monkeypatch.setattr(Cluster, "request_refresh", lambda each: requests.append(each))
            assert (await producer.send_and_wait(name, b"at the new one")).offset == 1
            assert producer.metrics()["record-retry-total"] == 1

    requests: list[object] = []
    asyncio.run(follow())
    assert requests == [], "no metadata were needed"


def refused(tmp_path: Path, **others: str) -> str:
    """Start a broker that must end by itself with exit code 1, and return its output."""
    named = {key.replace("_", "."): value for key, value in others.items()}
    values = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path), **named}
    code, output = try_to_start(*overridden(values))
    assert code == 1, output
    return output


def test_a_second_broker_with_the_same_id_is_refused(
    cluster: BrokerCluster, shared_coordinator: Coordinator, tmp_path: Path
) -> None:
    connect = shared_coordinator.address
    said = refused(tmp_path, broker_id="2", zookeeper_connect=connect)
    assert "broker 2 is registered already" in said
    assert {each.node_id for each in cluster.metadata(1).brokers} == set(IDS)


def test_a_broker_with_the_endpoint_of_another_is_refused(
    cluster: BrokerCluster, shared_coordinator: Coordinator, tmp_path: Path
) -> None:
    taken = f"PLAINTEXT://127.0.0.1:{cluster.brokers[1].port}"
    said = refused(
        tmp_path,
        broker_id="9",
        zookeeper_connect=shared_coordinator.address,
        advertised_listeners=taken,
    )
    assert "broker 1 advertises" in said


def test_log_dirs_of_another_cluster_are_refused(
    cluster: BrokerCluster, shared_coordinator: Coordinator, tmp_path: Path
) -> None:
    del cluster
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=9\ncluster.id=another\n")
    said = refused(tmp_path, zookeeper_connect=shared_coordinator.address)
    assert "belongs to cluster another" in said


def test_a_broker_without_a_coordinator_reports_it(tmp_path: Path) -> None:
    said = refused(tmp_path, zookeeper_connect="127.0.0.1:1", zookeeper_connection_timeout_ms="200")
    assert "no coordinator answers at 127.0.0.1:1" in said


def test_a_dead_leader_is_replaced_and_rejoins(coordinator: Coordinator, tmp_path: Path) -> None:
    with BrokerCluster(tmp_path, coordinator.address) as cluster:
        cluster.start(*IDS)
        cluster.create_topic("t", [[1, 2, 3]], min_insync_replicas="2")
        with cluster.wire(1) as wire:
            assert wire.produce("t", batch(b"a", b"b")).base_offset == 0
        cluster.brokers[1].kill()
        cluster.until_all_say(lambda asked: cluster.leaders(asked, "t") == [2])
        with cluster.wire(2) as wire:
            # A new leader learns its high watermark from the fetches of its followers.
            wait_until(lambda: wire.fetch("t", 0).high_watermark == 2)
            assert wire.produce("t", batch(b"c")).base_offset == 2
        cluster.start(1)
        cluster.until_in_sync("t", {1, 2, 3})
        log = "t-0/00000000000000000000.log"
        contents = {(cluster.data_dir(each) / log).read_bytes() for each in IDS}
        assert len(contents) == 1
        # The leader and the controller may stop without cutting off a client.
        for stopped in {cluster.leaders(1, "t")[0], cluster.controller(1)}:
            assert cluster.brokers[stopped].stop() == 0
            stop = [each["event"] for each in cluster.brokers[stopped].events]
            assert "shutdown.controlled" in stop, cluster.brokers[stopped].log_tail()
            others = [each for each in IDS if each != stopped]
            leader = cluster.leaders(others[0], "t")[0]
            assert leader in others, "it led before the other had gone"
            with cluster.wire(leader) as wire:
                assert wire.produce("t", batch(b"x")).error_code == ErrorCode.NONE
            cluster.start(stopped)
            cluster.until_in_sync("t", {1, 2, 3})


def test_leaders_write_in_sync_sets_themselves_below_protocol_2_7(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    overrides = {"inter.broker.protocol.version": "2.6", "replica.lag.time.max.ms": "1000"}
    with BrokerCluster(tmp_path, coordinator.address, overrides) as cluster:
        cluster.start(*IDS)
        cluster.create_topic("t", [[1, 2, 3]])
        followers = [each for each in (2, 3) if each != cluster.controller(1)]
        sleeper = cluster.brokers[followers[0]].process
        sleeper.send_signal(signal.SIGSTOP)
        try:
            # The broker still counts as live: its session outlives replica.lag.time.max.ms.
            with cluster.wire(1) as wire:
                assert wire.produce("t", batch(b"a")).error_code == ErrorCode.NONE
        finally:
            sleeper.send_signal(signal.SIGCONT)
        # One write removed the follower, another added it again, both without the controller.
        wait_until(lambda: asyncio.run(state_version(coordinator)) >= 2)


def test_a_broker_stops_without_its_coordinator_and_comes_back_when_it_does(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    with BrokerCluster(tmp_path, coordinator.address) as cluster:
        cluster.start(1)
        cluster.create_topic("t", [[1]])
        with cluster.wire(1) as wire:
            wire.produce("t", batch(b"a"))
            coordinator.kill()
            assert wire.produce("t", batch(b"b")).base_offset == 1, "records flow on"
        assert cluster.brokers[1].stop() == 0
        coordinator.start()
        # The new incarnation ends the session of the last one; otherwise it would be refused.
        cluster.start(1)
        cluster.until_all_say(lambda asked: cluster.leaders(asked, "t") == [1])
        with cluster.wire(1) as wire:
            assert wire.fetch("t", 0).high_watermark == 2


async def state_version(coordinator: Coordinator) -> int:
    async with Client(coordinator.address, has_heartbeat_thread=False) as client:
        _, stat = await client.get_data(paths.partition_state(TopicPartition("t", 0)))
        assert await client.exists(paths.FEATURE) is None, "the protocol is older than features"
        return stat.version


def test_znodes_are_kafkas(cluster: BrokerCluster, shared_coordinator: Coordinator) -> None:
    del cluster

    async def read() -> dict[str, bytes | None]:
        async with Client(shared_coordinator.address, has_heartbeat_thread=False) as client:
            wanted = [paths.FEATURE, paths.CONTROLLER, paths.broker(1)]
            return {path: (await client.get_data(path))[0] for path in wanted}

    found = asyncio.run(read())
    assert found[paths.FEATURE] == b'{"features":{},"version":2,"status":1}'
    assert (found[paths.CONTROLLER] or b"").startswith(b'{"version":2,"brokerid":')
    registration = found[paths.broker(1)] or b""
    assert registration.startswith(
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":['
    )
