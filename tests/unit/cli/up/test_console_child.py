"""The console beside a cluster: its arguments, its environment, and its absence."""

import asyncio
import signal
from pathlib import Path
from typing import cast

import pytest

from ottla.cli.up import console_child
from ottla.cli.up.console_child import run_console
from ottla.cli.up.events import ConsoleStarted, Event, NoConsole
from ottla.cli.up.plan import ClusterPlan, console_arguments, make_plan
from ottla.cli.up.secured import Files, Security
from tests.waiting import until


def plan(directory: Path) -> ClusterPlan:
    return make_plan(directory, broker_ports=[9092, 9093], coordinator_port=2181, overrides={})


def test_console_knows_the_brokers_and_their_log_directories(tmp_path: Path) -> None:
    assert console_arguments(plan(tmp_path), 9021) == (
        *("console", "--bootstrap", "127.0.0.1:9092,127.0.0.1:9093"),
        *("--listen", "127.0.0.1:9021", "--any-port"),
        *("--log-dir", str(tmp_path / "broker-1"), "--log-dir", str(tmp_path / "broker-2")),
    )


def test_console_of_a_secured_cluster_connects_as_its_administrator(tmp_path: Path) -> None:
    files = Files(tmp_path / "security")
    secured = make_plan(
        tmp_path,
        broker_ports=[9092],
        coordinator_port=2181,
        overrides={},
        security=Security(files, dict.fromkeys(("admin", "broker", "client"), "s3cret")),
    )
    arguments = console_arguments(secured, 9021)
    place = arguments.index("--command-config")
    assert arguments[place + 1] == str(files.properties("admin"))
    assert "s3cret" not in " ".join(arguments)


async def test_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_child, "missing_package", lambda: "starlette")
    events: list[Event] = []
    await run_console(plan(tmp_path), 9021, events.append)
    assert events == [NoConsole("it needs starlette: pip install 'ottla[console]'")]


async def test_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    events: list[Event] = []
    await run_console(plan(tmp_path / "absent"), 9021, events.append)
    assert str(events[0]).startswith("no console: it cannot be started: ")


def test_events_are_sentences() -> None:
    assert str(ConsoleStarted("http://127.0.0.1:1/")) == "console http://127.0.0.1:1/"


def test_options_for_other_clusters_do_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("BOOTSTRAP", "COMMAND_CONFIG", "CONSOLE_TOKEN", "PROFILE")
    for name in options:
        monkeypatch.setenv(f"OTTLA_{name}", "of another cluster")
    monkeypatch.setenv("OTTLA_PROFILES", "/profiles.toml")
    environment = console_child._environment(plan(tmp_path))
    assert "of another cluster" not in environment.values()
    assert environment["OTTLA_PROFILES"] == "/profiles.toml"


class Stubborn:
    """A process that only SIGKILL ends."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.signals: list[signal.Signals] = []
        self._ended = asyncio.Event()

    def send_signal(self, number: signal.Signals) -> None:
        self.signals.append(number)
        if number is signal.SIGKILL:
            self.returncode = -number
            self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode


async def test_a_second_interrupt_kills_a_console_that_does_not_end() -> None:
    process = Stubborn()
    stopping = asyncio.create_task(console_child._stop(cast(asyncio.subprocess.Process, process)))
    await until(lambda: process.signals == [signal.SIGTERM], "the request to stop")
    stopping.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait([stopping])
    assert process.signals == [signal.SIGTERM, signal.SIGKILL]
