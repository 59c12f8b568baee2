"""Migration to ZooKeeper: export, load, re-attach a live session, continue its counters."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from coordination.client import Client, patterns
from coordination.protocol.messages import Acl
from tests.integration.coordination.process import (
    ROOT,
    Coordinator,
    RawClient,
    ZooKeeper,
    ensemble,
    four_letter,
    has_zookeeper,
    kill_all,
    session_of,
)

pytestmark = pytest.mark.skipif(not has_zookeeper(), reason="needs Debian's zookeeper and java")


def export(server: Coordinator, target: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "coordination",
            f"--data-dir={server.directory}",
            f"--export-zookeeper={target}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "written: " in done.stdout


async def grown(server: Coordinator) -> tuple[int, bytes, Mapping[str, object]]:
    """Fill a coordinator; return a live session and the Stats of its nodes."""
    client = Client(server.address, session_timeout_ms=30_000)
    await client.connect()
    await client.create("/brokers", b"")
    await client.create("/brokers/ids")
    await client.create("/brokers/ids/1", b"{}", ephemeral=True)
    await client.create(
        "/secret", b"s", acl=(Acl(31, "digest", "bob:x"), Acl(1, "world", "anyone"))
    )
    await client.create("/null", None)
    await client.create_container("/box")
    await client.create_ttl("/ttl", b"t", 10**9)
    for _ in range(5):
        await client.create("/brokers/seq-", sequential=True)
    await client.delete("/brokers/seq-0000000003")
    for version in range(3):
        await client.set_data("/brokers", b"%d" % version)
    looks = {path: await client.exists(path) for path in await everything(client)}
    session = client.session_id, client.session.password
    await client.abandon()
    return *session, looks


async def everything(client: Client) -> list[str]:
    found, waiting = [], ["/"]
    while waiting:
        path = waiting.pop()
        found.append(path)
        names = await client.get_children(path)
        waiting += [f"{'' if path == '/' else path}/{name}" for name in names]
    return found


async def check(address: str, looks: Mapping[str, object], session: tuple[int, bytes]) -> None:
    client = Client(address, session_timeout_ms=30_000)
    assert await client.resume(*session), "the live session re-attaches by its password"
    for path, stat in looks.items():
        if not path.startswith("/zookeeper"):
            assert await client.exists(path) == stat, path
    assert (await client.get_acl("/secret"))[0][1] == Acl(1, "world", "anyone")
    assert (await client.get_data("/null"))[0] in (None, b"")
    assert await client.create("/brokers/seq-", sequential=True) == "/brokers/seq-0000000006"
    assert (await client.set_data("/brokers", b"next", 3)).version == 4
    owner = await patterns.create_ephemeral(client, "/brokers/ids/1", b"{}")
    assert owner.ephemeral_owner == session[0]
    await client.close()
    async with Client(address) as other:
        assert await other.exists("/brokers/ids/1") is None


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    return Coordinator(tmp_path / "ours", "--passwords=zookeeper")


async def test_one_zookeeper_loads_the_export(coordinator: Coordinator, tmp_path: Path) -> None:
    session_id, password, looks = await grown(coordinator)
    coordinator.stop()
    theirs = ZooKeeper(tmp_path / "theirs")
    export(coordinator, tmp_path / "theirs" / "data")
    theirs.start()
    try:
        await check(theirs.address, looks, (session_id, password))
    finally:
        theirs.kill()


async def test_an_ensemble_loads_the_export(coordinator: Coordinator, tmp_path: Path) -> None:
    session_id, password, looks = await grown(coordinator)
    coordinator.stop()
    members = ensemble(
        tmp_path / "ensemble", 3, prepare=lambda member: export(coordinator, member / "data")
    )
    try:
        address = ",".join(member.address for member in members)
        await check(address, looks, (session_id, password))
        assert all("Mode:" in four_letter(member.port, "srvr") for member in members)
    finally:
        kill_all(members)


def test_keyed_passwords_become_zookeepers_after_one_reconnect(tmp_path: Path) -> None:
    server = Coordinator(tmp_path / "ours")
    try:
        with RawClient(server.port) as client:
            session_id, keyed = session_of(client.shake_hands())
        server.stop()
        server.start("--passwords=zookeeper")
        with RawClient(server.port) as client:
            again, theirs = session_of(client.shake_hands(session_id, keyed))
            assert again == session_id
            assert theirs != keyed
    finally:
        server.kill()
