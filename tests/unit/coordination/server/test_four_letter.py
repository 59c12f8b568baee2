"""Four-letter words: responses of an idle server with one connection."""

import os
import platform
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from coordination.protocol.messages import (
    AddWatchMode,
    AddWatchRequest,
    CreateFlag,
    OpCode,
    ReadRequest,
)
from coordination.server import four_letter
from coordination.server.coordinator_config import CoordinatorConfig
from coordination.server.four_letter import COMMANDS, Metrics, ReportedServer, respond
from coordination.server.state.watches import Mode
from tests.unit.coordination.fakes import FakePeer, peer, service


class IdleServer:
    """Idle server with two sessions and one connection."""

    def __init__(self) -> None:
        self.service = service()
        self.owner, self.other = peer(self.service), peer(self.service, timeout_ms=4_000)
        self.connection = SimpleNamespace(
            peer_name="10.0.0.7:4711",
            held_count=1,
            received_count=5,
            sent_count=4,
            session_id=self.owner.session_id,
            last_op="GETD",
        )
        self.metrics = Metrics()
        self.server = SimpleNamespace(
            service=self.service,
            metrics=self.metrics,
            connections=[self.connection],
            synced_zxid=0x1F,
            config=CoordinatorConfig(tick_ms=100),
            bound_port=2181,
            bound_tls_port=None,
            uptime_ms=2500,
            sync_count=2,
            unsynced_count=3,
        )

    def ask(self, command: str) -> str:
        return "".join(respond(command, cast(ReportedServer, self.server)))

    def monitor(self) -> dict[str, str]:
        return dict(line.split("\t") for line in self.ask("mntr").splitlines())


@pytest.fixture
def idle() -> IdleServer:
    return IdleServer()


def watch_both(idle: IdleServer) -> None:
    """Set watches on /a: one session on its data, the other on data and children."""
    idle.owner.create("/a")
    idle.owner.ask(OpCode.GET_DATA, ReadRequest("/a", True))
    request = AddWatchRequest("/a", AddWatchMode.PERSISTENT)
    idle.other.ask(OpCode.ADD_WATCH, request)


def name_of(session: FakePeer) -> str:
    return f"{session.session_id:#x}"


def test_all_responses_end_with_a_newline(idle: IdleServer) -> None:
    for word in COMMANDS.keys() - {b"ruok", b"isro", b"wchc", b"wchp"}:
        assert idle.ask(word.decode()).endswith("\n"), word


def test_a_healthy_server_reports_imok(idle: IdleServer) -> None:
    assert (idle.ask("ruok"), idle.ask("isro")) == ("imok", "rw")


def test_a_disabled_word_is_refused_in_zookeepers_words() -> None:
    text = "dump is not executed because it is not in the whitelist.\n"
    assert four_letter.refusal("dump") == text


def test_statistics_have_zookeepers_format(idle: IdleServer) -> None:
    for elapsed_ms in (2.0, 1.0, 6.0):
        idle.metrics.on_latency(elapsed_ms)
    idle.metrics.received_count, idle.metrics.sent_count = 8, 7
    version, *lines = idle.ask("srvr").splitlines()
    assert version.startswith("Zookeeper version: 3.8.0-ottla-")
    assert lines == [
        "Latency min/avg/max: 1/3.0000/6",
        "Received: 8",
        "Sent: 7",
        "Connections: 1",
        "Outstanding: 3",
        "Zxid: 0x1f",
        "Mode: standalone",
        "Node count: 4",
    ]


def test_connections_are_listed_by_cons_and_briefly_by_stat(idle: IdleServer) -> None:
    counts = " /10.0.0.7:4711[1](queued=1,recved=5,sent=4"
    assert idle.ask("cons") == f"{counts},sid={name_of(idle.owner)},lop=GETD)\n\n"
    assert f"Clients:\n{counts})\n\nLatency" in idle.ask("stat")


def test_srst_and_crst_reset_the_counters(idle: IdleServer) -> None:
    idle.metrics.received_count = 9
    idle.metrics.on_latency(5.0)
    assert idle.ask("srst") == "Server stats reset.\n"
    assert (idle.metrics.received_count, idle.metrics.latency_avg_ms) == (0, 0.0)
    assert idle.ask("crst") == "Connection stats reset.\n"
    assert (idle.connection.received_count, idle.connection.sent_count) == (0, 0)


def test_mntr_reports_the_counts(idle: IdleServer) -> None:
    watch_both(idle)
    idle.owner.create("/e", b"abc", CreateFlag.EPHEMERAL)
    values = idle.monitor()
    expected = {
        "zk_server_state": "standalone",
        "zk_num_alive_connections": "1",
        "zk_global_sessions": "2",
        "zk_ephemerals_count": "1",
        "zk_watch_count": "3",
        "zk_znode_count": "6",
        "zk_uptime": "2500",
        "zk_unsynced_count": "3",
    }
    assert {name: values[name] for name in expected} == expected
    assert int(values["zk_open_file_descriptor_count"]) > 0
    assert int(values["zk_resident_bytes"]) > 1_000_000


def test_mntr_works_without_proc(idle: IdleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_arguments: object, **_options: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "listdir", nothing)
    monkeypatch.setattr(Path, "read_text", nothing)
    monkeypatch.setattr(four_letter, "_version", lambda: "3.8.0")
    values = idle.monitor()
    assert (values["zk_open_file_descriptor_count"], values["zk_resident_bytes"]) == ("-1", "-1")


def test_a_missing_installation_has_version_zero(
    idle: IdleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", unknown)
    assert idle.ask("srvr").startswith("Zookeeper version: 3.8.0-ottla-0, built on ")


def test_conf_and_envi_report_configuration_and_environment(idle: IdleServer) -> None:
    lines = idle.ask("conf").splitlines()
    assert lines[:2] == ["clientPort=2181", "tickTime=100"]
    assert "walFsync=always" in lines
    assert f"python.version={platform.python_version()}" in idle.ask("envi").splitlines()


def test_dump_lists_sessions_with_their_ephemeral_nodes(idle: IdleServer) -> None:
    idle.owner.create("/e", b"", CreateFlag.EPHEMERAL)
    owner, other = name_of(idle.owner), name_of(idle.other)
    assert idle.ask("dump") == (
        "SessionTracker dump:\nSession count: 2\n"
        f"{owner}\t10000ms\n{other}\t4000ms\n"
        f"ephemeral nodes dump:\nSessions with Ephemerals (1):\n{owner}:\n\t/e\n"
    )


def test_watches_are_counted_and_listed_by_session_and_path(idle: IdleServer) -> None:
    watch_both(idle)
    owner, other = name_of(idle.owner), name_of(idle.other)
    assert idle.ask("wchs") == "2 connections watching 1 paths\nTotal watches:3\n"
    assert idle.ask("wchc") == f"{owner}\n\t/a\n{other}\n\t/a\n"
    assert idle.ask("wchp") == f"/a\n\t{owner}\n\t{other}\n"
    idle.service.watches.children.add("/parent", idle.owner, Mode.ONE_SHOT)
    assert idle.ask("wchs") == "2 connections watching 2 paths\nTotal watches:4\n"
    assert idle.ask("wchc") == f"{owner}\n\t/a\n\t/parent\n{other}\n\t/a\n"
    assert idle.ask("wchp") == f"/a\n\t{owner}\n\t{other}\n/parent\n\t{owner}\n"


@pytest.mark.parametrize("command", ["wchs", "wchc", "wchp", "dump"])
def test_long_responses_are_made_in_parts_while_the_server_changes(
    idle: IdleServer, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(four_letter, "PART_LINES", 2)
    watches = idle.service.watches
    for number in range(6):
        watches.data.add(f"/d{number}", idle.owner, Mode.ONE_SHOT)
        watches.children.add(f"/d{number}", idle.owner, Mode.ONE_SHOT)
        idle.owner.create(f"/e{number}", flags=CreateFlag.EPHEMERAL)
    parts = respond(command, cast(ReportedServer, idle.server))
    begun = [next(parts)]
    assert begun[0].count("\n") <= 3
    watches.data.add("/later", idle.other, Mode.ONE_SHOT)
    watches.children.remove("/d5", idle.owner)
    watches.data.remove("/d4", idle.owner)
    idle.other.create("/later", flags=CreateFlag.EPHEMERAL)
    text = "".join([*begun, *parts])
    for number in range(4):
        name = f"/e{number}\n" if command == "dump" else f"/d{number}\n"
        assert text.count(name) == (0 if command == "wchs" else 1)


def test_conf_names_the_port_of_tls(idle: IdleServer) -> None:
    assert "secureClientPort" not in idle.ask("conf")
    idle.server.bound_tls_port = 2281
    assert "clientPort=2181\nsecureClientPort=2281\n" in idle.ask("conf")
