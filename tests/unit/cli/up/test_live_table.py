"""The table of a running cluster on a small terminal: `ottla.cli.up.live_table`."""

import asyncio
import errno
import io
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console
from rich.live import Live

from ottla.cli.up.cluster_table import COLUMNS, Observation, Usage
from ottla.cli.up.events import Stopped
from ottla.cli.up.live_table import LiveTable
from ottla.cli.up.plan import make_plan
from ottla.cli.up.supervisor import Supervisor
from ottla.client.client_config import NO_SECURITY


def test_table_fits_eighty_columns() -> None:
    plan = make_plan(
        Path("/data"), broker_ports=range(31_998, 32_001), coordinator_port=31_997, overrides={}
    )
    supervisor = SimpleNamespace(
        plan=plan,
        running={each.name: SimpleNamespace(pid=4_194_303) for each in plan.brokers},
        registrations=SimpleNamespace(registered={1, 2}),
    )
    now = Observation(
        2.0, None, {}, {each.name: Usage(65.0, 99_999_000_000) for each in plan.brokers}
    )
    before = Observation(1.0, None, {}, {each.name: Usage(0, 0) for each in plan.brokers})
    console = Console(file=io.StringIO(), width=80)
    console.print(LiveTable()._page(cast(Supervisor, supervisor), now, before))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert shown.split()[: len(COLUMNS) + 1] == " ".join(COLUMNS).split()
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert "absent" in shown


class Closed:
    """The display on a terminal that has been closed."""

    def __init__(self, **_options: object) -> None:
        pass

    def __enter__(self) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def __exit__(self, *_: object) -> None:
        pass


async def test_a_closed_terminal_ends_the_table_and_not_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.cli.up.live_table.Live", Closed)
    plan = make_plan(Path("/data"), broker_ports=[9092], coordinator_port=2181, overrides={})
    supervisor = SimpleNamespace(plan=plan, login=NO_SECURITY)
    async with asyncio.timeout(10):
        await LiveTable().follow(cast(Supervisor, supervisor))


def test_events_without_a_table_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    LiveTable().report(Stopped("broker-1", 0))
    assert capsys.readouterr().err == "broker-1 stopped\n"


class Blind:
    """Observations of a cluster that does not respond."""

    def __init__(self, *_options: object) -> None:
        pass

    async def observe(self, _pids: object) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("kind", "has_line"), [("xterm", False), ("dumb", True)])
async def test_a_terminal_that_cannot_show_a_table_gets_lines(
    kind: str, has_line: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, _environ={"TERM": kind})
    monkeypatch.setattr("ottla.cli.up.live_table.Live", partial(Live, console=console))
    monkeypatch.setattr("ottla.cli.up.live_table.TableObservations", Blind)
    plan = make_plan(Path("/data"), broker_ports=[9092], coordinator_port=2181, overrides={})
    supervisor = SimpleNamespace(plan=plan, login=NO_SECURITY, running={})
    table = LiveTable()
    following = asyncio.create_task(table.follow(cast(Supervisor, supervisor)))
    # In its first turn it takes over the terminal, and waits for an observation.
    await asyncio.sleep(0)
    table.report(Stopped("broker-1", 0))
    following.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait([following])
    assert ("broker-1 stopped" in shown.getvalue()) is has_line
