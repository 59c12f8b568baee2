"""A cluster over several machines: each is a directory and a loopback address of its own."""

import asyncio
import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

import ottla
from ottla.client.security import SecurityOptions
from tests.integration.cli.conftest import RunOttla
from tests.integration.cli.up.conftest import TIMEOUT_S, Up, described, is_running, start
from tests.integration.coordination.process import POLL_INTERVAL_S, wait_until
from tests.ports import free_port

FIRST, SECOND, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3"
LOGIN = "coordinator-login.conf"


def start_first(started: list[Up], directory: Path, *options: str) -> tuple[Up, str]:
    """Return the machine with the coordinator, and the address of the coordinator."""
    joinable = ("--joinable", "--advertised-host", FIRST, "--coordinator-port", str(free_port()))
    up = start(started, directory, *joinable, "--brokers", "1", *options)
    return up, up.wait_for("joinable")["coordinator"]


def join(started: list[Up], first: Up, directory: Path, host: str, *options: str) -> Up:
    """Return a machine that starts to join the first one."""
    event = first.wait_for("joinable")
    folder = directory / "security" if event["is_secured"] else directory
    folder.mkdir(parents=True, exist_ok=True)
    for path in event["files"]:
        shutil.copy(path, folder)
    joining = ("--join", event["coordinator"], "--advertised-host", host)
    up = Up(directory, *joining, *options)
    started.append(up)
    return up


def ids_in(directory: Path) -> list[int]:
    """Return the ids of the brokers of a machine."""
    texts = [path.read_text() for path in sorted(directory.glob("broker-*/meta.properties"))]
    return [int(line[10:]) for text in texts for line in text.split() if line[:10] == "broker.id="]


def addresses(*machines: Up) -> list[str]:
    return [each for up in machines for each in up.wait_for("ready")["brokers"]]


async def racks_of_replicas(bootstrap: list[str], topic: str) -> list[set[str | None]]:
    """Return the racks of each partition, once the topic is in the metadata."""
    async with ottla.Admin(bootstrap) as admin:
        found = await described(admin, topic)
        racks = (await admin.describe_cluster()).racks
        return [{racks[each] for each in part.replicas} for part in found.partitions]


async def produce(bootstrap: list[str], count: int, login: SecurityOptions | None = None) -> None:
    """Produce to each partition of topic `t` with acks=all."""
    async with ottla.Producer(bootstrap, acks="all", **(login or {})) as producer:
        for number in range(count):
            for partition in range(6):
                await producer.send_and_wait("t", b"%d" % number, partition=partition)


async def create(bootstrap: list[str], login: SecurityOptions | None = None) -> None:
    async with ottla.Admin(bootstrap, **(login or {})) as admin:
        await admin.create_topics([ottla.NewTopic("t", 6)])


def test_machines_join_at_the_same_time_and_the_cluster_outlives_one_of_them(
    started: list[Up], tmp_path: Path
) -> None:
    first, _ = start_first(started, tmp_path / "1")
    second = join(started, first, tmp_path / "2", SECOND)
    third = join(started, first, tmp_path / "3", THIRD, "--brokers", "1")
    bootstrap = addresses(first, second, third)
    ids = [*ids_in(tmp_path / "1"), *ids_in(tmp_path / "2"), *ids_in(tmp_path / "3")]
    assert ids[0] == 1
    assert sorted(ids[1:]) == [1001, 1002, 1003]
    assert {each.partition(":")[0] for each in bootstrap} == {FIRST, SECOND, THIRD}

    asyncio.run(create(bootstrap))
    racks = asyncio.run(racks_of_replicas(bootstrap, "t"))
    assert racks == [{FIRST, SECOND, THIRD}] * 6
    asyncio.run(produce(bootstrap, 1))

    # The machine loses its power: supervisor and brokers die in the same moment.
    lost = third.pids()
    third.end(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, lost)))
    asyncio.run(produce(bootstrap, 3))

    # The other one stops in order, and takes nothing with it.
    before, others = ids_in(tmp_path / "2"), first.pids()
    stopping = second.pids()
    assert second.end(signal.SIGTERM) == 0
    stopped = [
        (each["name"], each["exit_code"]) for each in second.events if each["event"] == "stopped"
    ]
    assert stopped == [("broker-1", 0), ("broker-2", 0)]
    assert not any(map(is_running, stopping))
    assert first.pids() == others
    assert all(map(is_running, others))

    # Both come back under their ids, without another copy.
    third = join(started, first, tmp_path / "3", THIRD, "--brokers", "1")
    bootstrap = addresses(first, third, join(started, first, tmp_path / "2", SECOND))
    assert ids_in(tmp_path / "2") == before
    assert [*ids_in(tmp_path / "1"), *before, *ids_in(tmp_path / "3")] == ids
    asyncio.run(produce(bootstrap, 1))
    assert third.end(signal.SIGINT) == 0
    assert all(map(is_running, first.pids()))


@pytest.mark.soak
def test_machine_with_the_coordinator_restarts_and_the_others_return(
    started: list[Up], tmp_path: Path
) -> None:
    first, coordinator = start_first(started, tmp_path / "1")
    second = join(started, first, tmp_path / "2", SECOND, "--brokers", "1")
    second.wait_for("ready")
    assert first.end(signal.SIGTERM) == 0
    assert all(map(is_running, second.pids()))
    port = coordinator.rpartition(":")[2]
    again, _ = start_first(started, tmp_path / "1", "--coordinator-port", port)
    [broker] = second.wait_for("ready")["brokers"]

    async def both() -> None:
        async with ottla.Admin(broker) as admin:
            deadline_s = time.monotonic() + TIMEOUT_S
            while set((await admin.describe_cluster()).brokers) != {1, 1001}:
                assert time.monotonic() < deadline_s, "the brokers do not know each other"
                await asyncio.sleep(POLL_INTERVAL_S)

    asyncio.run(both())
    assert "died" not in [each["event"] for each in second.events]
    assert second.end(signal.SIGTERM) == again.end(signal.SIGTERM) == 0


def test_machine_that_cannot_join_prints_the_reason(
    started: list[Up], tmp_path: Path, run_ottla: RunOttla
) -> None:
    first, coordinator = start_first(started, tmp_path / "1")
    options = ("--join", coordinator, "--advertised-host", SECOND, "--brokers", "1")
    stranger = run_ottla("up", "--dir", tmp_path / "2", *options)
    assert stranger.returncode == 1
    assert stranger.stderr.startswith(f"ottla: {coordinator} demands a login: copy the files")

    (tmp_path / "2" / LOGIN).write_text((tmp_path / "1" / LOGIN).read_text().replace('d="', 'd="x'))
    wrong = run_ottla("up", "--dir", tmp_path / "2", *options)
    assert (wrong.returncode, "refuses the login of user broker" in wrong.stderr) == (1, True)

    shutil.copy(tmp_path / "1" / LOGIN, tmp_path / "2")
    with socket.socket() as taken:
        taken.bind((SECOND, 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = run_ottla("up", "--dir", tmp_path / "2", *options, "--port", port)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"ottla: port {port} cannot be used: address already in use")

    data = tmp_path / "2" / "broker-1"
    data.mkdir()
    foreign = "A" * 22
    (data / "meta.properties").write_text(f"version=0\nbroker.id=7\ncluster.id={foreign}\n")
    other = run_ottla("up", "--dir", tmp_path / "2", *options, "--port", "0")
    assert (other.returncode, other.stdout) == (1, "")
    assert f"belongs to cluster {foreign}, but the coordinator coordinates" in other.stderr
    assert first.end(signal.SIGTERM) == 0


@pytest.mark.soak
def test_secured_machine_joins_with_two_copied_files(
    started: list[Up], tmp_path: Path, run_ottla: RunOttla
) -> None:
    pytest.importorskip("cryptography")
    first, coordinator = start_first(started, tmp_path / "1", "--secure")
    early = run_ottla("up", "--secure", "--join", coordinator, "--dir", tmp_path / "2")
    assert early.returncode == 2
    assert "copy authority.pem and passwords.json from the folder security" in early.stderr

    joining = ("--secure", "--brokers", "2", "--override", "min.insync.replicas=1")
    second = join(started, first, tmp_path / "2", SECOND, *joining)
    bootstrap = addresses(first, second)
    login = login_of(tmp_path / "2")
    asyncio.run(create(bootstrap, login))
    # Only a broker of the first machine is asked for the others.
    asyncio.run(produce(bootstrap[:1], 1, login))
    assert ids_in(tmp_path / "2") == [1001, 1002]
    secrets = json.loads((tmp_path / "1" / "security" / "passwords.json").read_text()).values()
    for pid in (first.process.pid, *first.pids(), second.process.pid, *second.pids()):
        command = Path(f"/proc/{pid}/cmdline").read_text()
        assert not [each for each in secrets if each in command]
    # The supervisor of a machine that joined closes the session of a dead broker, too.
    os.kill(second.pid("broker-2"), signal.SIGKILL)
    assert second.wait_for("died")["is_session_closed"] is True
    second.wait_for("started")
    assert second.end(signal.SIGTERM) == first.end(signal.SIGTERM) == 0


def login_of(directory: Path) -> SecurityOptions:
    folder = directory / "security"
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(folder / "ca.pem"),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "client",
        "sasl_plain_password": json.loads((folder / "passwords.json").read_text())["client"],
    }
