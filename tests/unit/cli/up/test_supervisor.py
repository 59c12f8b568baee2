"""The supervisor of a cluster stops its processes in order, or kills them."""

import asyncio
import signal
from pathlib import Path
from typing import cast

import pytest

from ottla.cli.up.events import Event, Stopped
from ottla.cli.up.plan import LOG_FILE, make_plan
from ottla.cli.up.process import ChildProcess
from ottla.cli.up.supervisor import Supervisor, _early_death
from tests.waiting import until


class Hanging:
    """A process that ends only when it is killed."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._killed = asyncio.Event()

    async def stop(self, _timeout_s: float) -> int:
        self.is_stopping = True
        await self._killed.wait()
        return -signal.SIGKILL

    def send(self, number: signal.Signals) -> None:
        assert number is signal.SIGKILL
        self._killed.set()


async def test_a_process_that_is_being_stopped_can_be_killed(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, broker_ports=[9092], coordinator_port=2181, overrides={})
    events: list[Event] = []
    supervisor = Supervisor(plan, may_restart=True, report=events.append)
    process = Hanging()
    supervisor.running["broker-1"] = cast(ChildProcess, process)
    stopping = asyncio.create_task(supervisor.stop())
    await until(lambda: process.is_stopping, "the begin of the stop")
    supervisor.kill()
    async with asyncio.timeout(10):
        await stopping
    assert events == [Stopped("broker-1", -signal.SIGKILL)]
    assert supervisor.running == {}


async def test_killed_processes_are_not_restarted(tmp_path: Path) -> None:
    async def keep_running() -> None:
        await asyncio.Event().wait()

    plan = make_plan(tmp_path, broker_ports=[9092], coordinator_port=2181, overrides={})
    supervisor = Supervisor(plan, may_restart=True, report=lambda _event: None)
    watcher = supervisor._watchers["broker-1"] = asyncio.create_task(keep_running())
    supervisor.kill()
    async with asyncio.timeout(10):
        await asyncio.wait([watcher])
    assert watcher.cancelled()


@pytest.mark.parametrize(
    ("exit_code", "reason"), [(1, "the disk is full"), (-signal.SIGKILL, "died (SIGKILL)")]
)
def test_only_a_process_that_ended_by_itself_has_written_the_reason(
    tmp_path: Path, exit_code: int, reason: str
) -> None:
    plan = make_plan(tmp_path, broker_ports=[9092], coordinator_port=2181, overrides={})
    [broker] = plan.brokers
    broker.directory.mkdir()
    line = '{"event": "broker.not_started", "error": "the disk is full"}\n'
    (broker.directory / LOG_FILE).write_text(line)
    assert str(_early_death(broker, exit_code)) == f"broker-1 could not start: {reason}"
