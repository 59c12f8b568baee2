"""The four-letter words: what operators read, from a server and a connection that stand still."""

import os
import platform
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from coordination import four_letter
from coordination.config import CoordinatorConfig
from coordination.four_letter import COMMANDS, Report, answer
from coordination.messages import AddWatchMode, AddWatchRequest, CreateFlag, OpCode, ReadRequest
from coordination.metrics import Metrics
from tests.unit.coordination.fakes import FakePeer, peer, service

if TYPE_CHECKING:
    from coordination.connection import Connection
    from coordination.server import Server


class Standing:
    """A server with two sessions and one connection, which nothing happens to any more."""

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
            loop=SimpleNamespace(time=lambda: 12.5),
            started_at_s=10.0,
        )

    def ask(self, command: str) -> str:
        report = Report(cast("Server", self.server), {"unsynced_count": 3})
        return answer(command, report, cast("Connection", self.connection))

    def monitor(self) -> dict[str, str]:
        return dict(line.split("\t") for line in self.ask("mntr").splitlines())


@pytest.fixture
def standing() -> Standing:
    return Standing()


def watch_both(standing: Standing) -> None:
    """Both sessions watch /a: one its data, the other data and children."""
    standing.owner.create("/a")
    standing.owner.ask(OpCode.GET_DATA, ReadRequest("/a", True))
    request = AddWatchRequest("/a", AddWatchMode.PERSISTENT)
    standing.other.ask(OpCode.ADD_WATCH, request)


def name_of(session: FakePeer) -> str:
    return f"{session.session_id:#x}"


def test_all_words_are_answered_with_whole_lines(standing: Standing) -> None:
    for word in COMMANDS.keys() - {b"ruok", b"isro", b"wchc", b"wchp"}:
        assert standing.ask(word.decode()).endswith("\n"), word


def test_a_healthy_server_says_so(standing: Standing) -> None:
    assert (standing.ask("ruok"), standing.ask("isro")) == ("imok", "rw")


def test_a_word_that_is_not_allowed_is_refused_as_zookeeper_refuses_it() -> None:
    text = "dump is not executed because it is not in the whitelist.\n"
    assert four_letter.refusal("dump") == text


def test_statistics_are_in_the_lines_that_tools_read(standing: Standing) -> None:
    for elapsed_ms in (2.0, 1.0, 6.0):
        standing.metrics.on_latency(elapsed_ms)
    standing.metrics.received_count, standing.metrics.sent_count = 8, 7
    version, *lines = standing.ask("srvr").splitlines()
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


def test_connections_are_listed_alone_and_with_the_statistics(standing: Standing) -> None:
    line = f" /10.0.0.7:4711[1](queued=1,recved=5,sent=4,sid={name_of(standing.owner)},lop=GETD)\n"
    assert standing.ask("cons") == f"{line}\n"
    assert f"Clients:\n{line}\nLatency" in standing.ask("stat")


def test_counters_begin_again_when_asked_to(standing: Standing) -> None:
    standing.metrics.received_count = 9
    standing.metrics.on_latency(5.0)
    assert standing.ask("srst") == "Server stats reset.\n"
    assert (standing.metrics.received_count, standing.metrics.latency_avg_ms) == (0, 0.0)
    assert standing.ask("crst") == "Connection stats reset.\n"
    assert (standing.connection.received_count, standing.connection.sent_count) == (0, 0)


def test_the_monitor_counts_what_there_is(standing: Standing) -> None:
    watch_both(standing)
    standing.owner.create("/e", b"abc", CreateFlag.EPHEMERAL)
    told = standing.monitor()
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
    assert {name: told[name] for name in expected} == expected
    assert int(told["zk_open_file_descriptor_count"]) > 0
    assert int(told["zk_resident_bytes"]) > 1_000_000


def test_a_system_without_proc_has_fewer_figures(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_arguments: object, **_options: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "listdir", nothing)
    monkeypatch.setattr(Path, "read_text", nothing)
    monkeypatch.setattr(four_letter, "_version", lambda: "3.8.0")
    told = standing.monitor()
    assert (told["zk_open_file_descriptor_count"], told["zk_resident_bytes"]) == ("-1", "-1")


def test_what_is_not_installed_has_version_zero(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", unknown)
    assert standing.ask("srvr").startswith("Zookeeper version: 3.8.0-ottla-0, built on ")


def test_the_configuration_and_the_environment_are_told(standing: Standing) -> None:
    lines = standing.ask("conf").splitlines()
    assert lines[:2] == ["clientPort=2181", "tickTime=100"]
    assert "walFsync=always" in lines
    assert f"python.version={platform.python_version()}" in standing.ask("envi").splitlines()


def test_sessions_are_dumped_with_their_ephemeral_nodes(standing: Standing) -> None:
    standing.owner.create("/e", b"", CreateFlag.EPHEMERAL)
    owner, other = name_of(standing.owner), name_of(standing.other)
    assert standing.ask("dump") == (
        "SessionTracker dump:\nSession count: 2\n"
        f"{owner}\t10000ms\n{other}\t4000ms\n"
        f"ephemeral nodes dump:\nSessions with Ephemerals (1):\n{owner}:\n\t/e\n"
    )


def test_watches_are_summed_and_listed_by_session_and_by_path(standing: Standing) -> None:
    watch_both(standing)
    owner, other = name_of(standing.owner), name_of(standing.other)
    assert standing.ask("wchs") == "2 connections watching 1 paths\nTotal watches:3\n"
    assert standing.ask("wchc") == f"{owner}\n\t/a\n{other}\n\t/a\n"
    assert standing.ask("wchp") == f"/a\n\t{owner}\n\t{other}\n"
