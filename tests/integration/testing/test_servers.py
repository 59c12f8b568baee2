"""Brokers and clusters of `ottla.testing`, and each of their faults."""

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ottla
from coordination.client import session_file
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from kafkawire.sentinels import NO_LEADER
from ottla.launcher import session_end
from ottla.testing import CLIENTS, COORDINATOR, Broker, Cluster, StartError, StateError
from ottla.testing.launching import Launcher
from ottla.testing.network.control import NetworkControl
from ottla.testing.ready_cluster import controller_of
from ottla.testing.topics import TOPICS_PER_DELETION
from tests.integration.broker.wire import Wire, batch
from tests.ports import free_port
from tests.waiting import until_sync

DELAY_S = 0.3
MANY_TOPICS = 9
"""More topics than can all have the controller as leader."""


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[Broker]:
    with Broker(network=True) as running:
        yield running


@pytest.fixture
def broker(shared_broker: Broker) -> Iterator[Broker]:
    yield shared_broker
    # A failed test must not fail the next ones.
    shared_broker.resume()
    shared_broker.heal()
    shared_broker.free_disk()


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with Cluster(network=True) as running:
        yield running


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    yield shared_cluster
    shared_cluster.heal()


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def send(bootstrap: str, topic: str, value: bytes = b"value") -> int:
    async with ottla.Producer(bootstrap) as producer:
        return (await producer.send_and_wait(topic, value)).offset


def partition_at(cluster: Cluster, broker_id: int, topic: str) -> MetadataResponsePartition:
    """Return a topic's only partition as one broker knows it, once it knows a leader."""
    found: list[MetadataResponsePartition] = []
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )

    def is_led() -> bool:
        response = wire.ask(ApiKey.METADATA, 4, request, MetadataResponse)
        found[:] = response.topics[0].partitions
        return bool(found) and found[0].leader_id != NO_LEADER

    with Wire(port_of(cluster.address(broker_id))) as wire:
        until_sync(is_led, "a leader")
    return found[0]


def leader_of(cluster: Cluster, broker_id: int, topic: str) -> int:
    """Return the leader of a topic's only partition, as one broker knows it."""
    return partition_at(cluster, broker_id, topic).leader_id


async def test_a_killed_broker_starts_again_with_its_records(broker: Broker) -> None:
    with broker.topics() as topics:
        topic = topics.create()
        assert await send(broker.bootstrap, topic) == 0
        address, old = broker.bootstrap, broker.pid
        broker.kill()
        with pytest.raises(StateError, match="broker 1 does not run"):
            broker.pause()
        broker.start()
        assert (broker.bootstrap, broker.pid == old) == (address, False)
        assert await send(broker.bootstrap, topic) == 1


async def test_an_orderly_stop_ends_with_exit_code_zero(broker: Broker) -> None:
    assert broker.stop() == 0
    broker.start()


async def test_a_paused_broker_answers_once_it_is_resumed(broker: Broker) -> None:
    with broker.topics() as topics:
        topic = topics.create()
        async with ottla.Producer(broker.bootstrap) as producer:
            await producer.send_and_wait(topic, b"first")
            broker.pause()
            future = await producer.send(topic, b"second")
            done, _ = await asyncio.wait([future], timeout=DELAY_S)
            assert not done
            broker.resume()
            assert (await future).offset == 1


def test_a_full_disk_refuses_records_until_it_has_space(broker: Broker) -> None:
    with broker.topics() as topics, Wire(port_of(broker.bootstrap)) as wire:
        topic = topics.create()
        broker.fill_disk()
        assert wire.produce(topic, batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.free_disk()
        until_sync(lambda: wire.produce(topic, batch(b"x")).error_code == ErrorCode.NONE)


async def test_data_of_a_cut_network_arrives_when_it_is_healed(broker: Broker) -> None:
    with broker.topics() as topics:
        topic = topics.create()
        async with ottla.Producer(broker.bootstrap) as producer:
            await producer.send_and_wait(topic, b"first")
            broker.cut()
            future = await producer.send(topic, b"second")
            done, _ = await asyncio.wait([future], timeout=DELAY_S)
            assert not done
            broker.heal()
            assert (await future).offset == 1


async def test_a_slow_network_delays_both_directions(broker: Broker) -> None:
    with broker.topics() as topics:
        topic = topics.create()
        async with ottla.Producer(broker.bootstrap) as producer:
            await producer.send_and_wait(topic, b"first")
            broker.slow(DELAY_S)
            began_s = time.monotonic()
            await producer.send_and_wait(topic, b"second")
            assert time.monotonic() - began_s >= 2 * DELAY_S
            broker.heal()


@pytest.mark.parametrize("delay_s", [-1.0, math.nan, math.inf])
def test_a_delay_that_cannot_pass_is_refused(broker: Broker, delay_s: float) -> None:
    with pytest.raises(ValueError, match="delay_s must be a number of seconds"):
        broker.slow(delay_s)
    broker.heal()


async def test_another_broker_leads_when_the_leader_is_isolated(cluster: Cluster) -> None:
    with cluster.topics() as topics:
        topic = topics.create(replication_factor=3)
        old = leader_of(cluster, 1, topic)
        witness = next(each for each in cluster.broker_ids if each != old)
        cluster.isolate(old)
        until_sync(lambda: leader_of(cluster, witness, topic) != old, "another leader")
        assert await send(cluster.address(witness), topic) == 0
        cluster.heal()
        cluster.wait_until_complete()
        assert await send(cluster.address(old), topic) == 1


async def test_a_broker_cut_from_its_peers_leaves_the_in_sync_set(cluster: Cluster) -> None:
    with cluster.topics() as topics:
        topic = topics.create(replication_factor=3)
        leader = leader_of(cluster, 1, topic)
        # The leader must still reach the controller, which changes the in-sync set.
        followers = set(cluster.broker_ids) - {leader, cluster.controller()}
        one = followers.pop()
        cluster.cut([one], set(cluster.broker_ids) - {one})
        async with ottla.Producer(cluster.address(leader), acks="all") as producer:
            await producer.send_and_wait(topic, b"value")
        until_sync(lambda: one not in partition_at(cluster, leader, topic).isr_nodes, "the change")
        cluster.heal()


def test_an_expired_session_moves_leadership_while_the_broker_lives(cluster: Cluster) -> None:
    """A controller whose session expires may register again before the next one looks."""
    with cluster.topics() as topics:
        controller = cluster.controller()
        created = (topics.create(replication_factor=3) for _ in range(MANY_TOPICS))
        topic = next(each for each in created if leader_of(cluster, 1, each) != controller)
        old = leader_of(cluster, 1, topic)
        witness = next(each for each in cluster.broker_ids if each != old)
        pid = cluster.pid(old)
        cluster.expire_session(old)
        until_sync(lambda: leader_of(cluster, witness, topic) != old, "another leader")
        cluster.wait_until_complete()
        assert cluster.pid(old) == pid


async def test_clients_are_served_while_the_coordinator_is_dead(cluster: Cluster) -> None:
    with cluster.topics() as topics:
        topic = topics.create(replication_factor=3)
        # The followers have made their logs, for which they read the topic's configuration.
        assert await send(cluster.bootstrap, topic) == 0
        cluster.kill_coordinator()
        assert await send(cluster.bootstrap, topic) == 1
        cluster.start_coordinator()
        assert await send(cluster.bootstrap, topic) == 2


def test_the_controller_is_another_broker_after_its_crash(cluster: Cluster) -> None:
    old = cluster.controller()
    cluster.kill(old)
    assert old not in cluster.running()
    cluster.wait_until_complete()
    for broker_id in cluster.running():
        assert asyncio.run(controller_of(cluster.address(broker_id))) in cluster.running()
    assert cluster.controller() != old
    cluster.start(old)
    cluster.wait_until_complete()


def test_an_unknown_broker_is_refused(cluster: Cluster) -> None:
    with pytest.raises(StateError, match=r"there is no broker 4: the ids are \(1, 2, 3\)"):
        cluster.kill(4)
    with pytest.raises(StateError, match="there is no broker 9"):
        cluster.cut([9], [CLIENTS, COORDINATOR])


def test_a_network_is_needed_for_its_faults() -> None:
    with pytest.raises(StateError, match="need Broker"):
        Broker().cut()
    with pytest.raises(StateError, match="need Cluster"):
        Cluster().heal()
    with pytest.raises(StateError, match="was not started"):
        Cluster().kill(1)


def test_a_network_that_has_died_says_so(tmp_path: Path) -> None:
    control = NetworkControl(tmp_path)
    try:
        os.kill(control._server.pid, signal.SIGKILL)
        until_sync(lambda: not control._server.is_running)
        for _ in range(2):
            with pytest.raises(StateError, match="the network has ended"):
                control.heal()
    finally:
        control.close()


def test_the_log_of_a_broker_that_does_not_start_is_in_the_error(tmp_path: Path) -> None:
    with (
        pytest.raises(StartError, match=r"num\.partitions") as failure,
        Broker({"num.partitions": "none"}, directory=tmp_path),
    ):
        pass
    assert "exit code 2" in str(failure.value)


async def test_a_chosen_directory_and_its_data_stay(tmp_path: Path) -> None:
    async with Broker(directory=tmp_path / "kept") as broker:
        log = broker.log_path
    async with Broker(directory=tmp_path / "kept") as broker:
        assert broker.log_path == log
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events.count("broker.started") == 2


def test_servers_do_not_sync_their_files() -> None:
    """The real calls refuse a file that is not open, so a call that returns did nothing."""
    program = (
        "import os; from ottla.launcher.disk_fault import skip_syncs; skip_syncs(); "
        "os.fsync(-1); os.fdatasync(-1)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_servers_end_with_the_program_that_started_them() -> None:
    program = (
        "import os, signal; from ottla.testing import Broker; broker = Broker(); "
        "broker.__enter__(); print(broker.pid, broker.bootstrap, flush=True); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    dead = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    pid, address = dead.stdout.split()
    until_sync(lambda: not Path(f"/proc/{pid}").exists(), "the broker's end")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(address)))


@pytest.mark.parametrize("end", ["sys.exit()", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_forked_child_that_lives_on_keeps_no_servers(end: str) -> None:
    """It has a copy of the launcher's input, whose end is the sign to exit."""
    program = f"""
import os, signal, sys
from ottla.testing import Broker
broker = Broker()
broker.__enter__()
child = os.fork()
if not child:
    os.close(1)
    signal.pause()
print(broker.pid, child, flush=True)
{end}
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        pid, child = map(int, started.stdout.readline().split())
        try:
            started.wait(30)
            until_sync(lambda: not Path(f"/proc/{pid}").exists(), "the broker's end")
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_launcher_that_was_killed_costs_its_own_servers_only() -> None:
    program = """
import os, signal
from ottla.testing import Broker, StartError
from ottla.testing.launching import shared_launcher

lost = Broker().__enter__()
process = shared_launcher()._process
process.kill()
process.wait()
try:
    lost.stop()
except StartError as error:
    print(error)
with Broker() as broker:
    print(broker.stop())
    try:
        lost.stop()
    except StartError as error:
        print(error)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    first, code, later = done.stdout.splitlines()
    assert "the process that starts servers has ended" in first
    assert code == "0", done.stderr
    assert "the process that starts servers has ended" in later


def test_servers_of_a_killed_launcher_can_be_closed(tmp_path: Path) -> None:
    program = """
import sys
from ottla.testing import Broker
from ottla.testing.launching import shared_launcher

for directory in (None, sys.argv[1]):
    with Broker(directory=directory) as broker:
        broker.topics().create()
        process = shared_launcher()._process
        process.kill()
        process.wait()
    print("closed")
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "closed\nclosed\n", done.stderr


def test_a_server_without_space_for_its_last_output_still_ends(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from ottla.launcher import children

class Full:
    def flush(self):
        raise OSError("no space left on device")

def run(_arguments):
    sys.stdout = Full()
    return 7

children.PROGRAMS["full"] = run
pid = children.Children().start("full", [], Path(sys.argv[1]))
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "7\n", done.stderr


def test_a_network_runs_below_a_long_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sandboxes of build systems have such directories."""
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    network = NetworkControl(tmp_path)
    try:
        network.heal()
    finally:
        network.close()
    assert not list(long.iterdir())


def test_a_closed_broker_starts_again_in_a_new_block_only(tmp_path: Path) -> None:
    broker = Broker(directory=tmp_path)
    with broker:
        broker.kill()
    with pytest.raises(StateError, match="broker 1 was closed"):
        broker.start()
    with broker:
        assert broker.pid


def test_a_thread_that_waits_for_an_end_holds_no_other_up(tmp_path: Path) -> None:
    launcher = Launcher()
    try:
        pid = launcher.start("network", [str(tmp_path / "control")], tmp_path / "log")
        with ThreadPoolExecutor(1) as pool:
            code = pool.submit(launcher.exit_code, pid, 10)
            launcher.send(pid, signal.SIGKILL)
            assert code.result() == -signal.SIGKILL
    finally:
        launcher.close()


def test_a_session_that_cannot_be_ended_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "session"
    address = f"127.0.0.1:{free_port()}"
    saved = session_file.SavedSession(address, session_id=1, password=b"secret", pid=1)
    asyncio.run(session_file.save(path, saved))
    monkeypatch.setattr(session_end, "TIMEOUT_S", 0.1)
    assert session_end.end_session([str(path), address]) == session_end.EXIT_FAILED
    assert capsys.readouterr().err == f"the coordinator at {address} did not answer within 0.1 s\n"


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launcher]:
    """A launcher during whose start of a server the program was interrupted."""

    def interrupt(_timeout_s: float) -> None:
        raise KeyboardInterrupt

    launcher = Launcher()
    try:
        launcher.send(0, 0)
        launcher._process.send_signal(signal.SIGSTOP)
        with monkeypatch.context() as patch:
            # While it waits for the reply.
            patch.setattr(launcher._selector, "select", interrupt)
            with pytest.raises(KeyboardInterrupt):
                launcher.start("network", [str(tmp_path / "lost")], tmp_path / "lost.log")
        launcher._process.send_signal(signal.SIGCONT)
        yield launcher
    finally:
        launcher._process.send_signal(signal.SIGCONT)
        launcher.close()


def test_a_start_that_was_interrupted_leaves_no_server(interrupted: Launcher) -> None:
    until_sync(lambda: interrupted.exit_code(0) is None and bool(interrupted._exits), "an end")
    assert list(interrupted._exits.values()) == [-signal.SIGKILL]


def test_a_start_that_was_interrupted_confuses_no_later_one(
    interrupted: Launcher, tmp_path: Path
) -> None:
    pid = interrupted.start("network", [str(tmp_path / "kept")], tmp_path / "kept.log")
    until_sync((tmp_path / "kept").exists, "the second server's start")
    until_sync(lambda: interrupted.exit_code(pid) is None and bool(interrupted._exits), "an end")
    assert list(interrupted._exits.values()) == [-signal.SIGKILL]


def test_a_child_process_does_not_use_its_parents_servers(broker: Broker) -> None:
    assert broker.pid
    child = os.fork()
    if not child:
        try:
            with Broker() as own:
                os._exit(0 if own.bootstrap != broker.bootstrap else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert broker.pid


def test_no_server_gets_the_process_id_of_an_earlier_one(tmp_path: Path) -> None:
    """Otherwise it would seem to have ended as the other one did."""
    program = """
import os, sys
from pathlib import Path
from ottla.launcher.children import Children

children = Children()
probe = os.fork()
if not probe:
    os._exit(0)
os.waitpid(probe, 0)
# The system gives the next ids in order.
children._ended.update(range(probe + 1, probe + 100))
pid = children.start("network", [str(Path(sys.argv[1], "control"))], Path(sys.argv[1], "log"))
print(pid in children._ended)
children.kill_all()
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


async def test_topics_of_ended_tests_are_deleted(broker: Broker) -> None:
    with broker.topics("a test[é]") as topics:
        created, chosen = topics.create("orders", partitions=2), topics.name("by-the-program")
        assert created.startswith("a-test-")
        for _ in range(TOPICS_PER_DELETION):
            topics.name()
        async with ottla.Admin(broker.bootstrap) as admin:
            await admin.create_topics([ottla.NewTopic(chosen, 1)])
            assert {created, chosen} <= set(await admin.list_topics())
    async with ottla.Admin(broker.bootstrap) as admin, asyncio.timeout(60):
        while {created, chosen} & set(await admin.list_topics()):
            pass


def test_a_paused_broker_with_topics_is_closed_at_once(tmp_path: Path) -> None:
    """Nothing waits for the deletion of its topics, which it cannot answer."""
    with Broker(directory=tmp_path) as broker:
        with broker.topics("left") as topics:
            name = topics.create()
        pid = broker.pid
        broker.pause()
    assert not Path(f"/proc/{pid}").exists()
    assert (broker.log_dir / f"{name}-0").exists()
