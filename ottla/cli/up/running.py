"""Runs a supervisor until a signal stops it (composition)."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.terminal import is_terminal
from ottla.cli.up.console_child import run_console
from ottla.cli.up.events import Event, LeftOut
from ottla.cli.up.output import outputs_without_waiting
from ottla.cli.up.plan import ClusterPlan
from ottla.cli.up.report import json_line_of, line_of, report_json, report_line
from ottla.cli.up.supervisor import Supervisor

if TYPE_CHECKING:
    from ottla.cli.up.live_table import LiveTable

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_until_signal(
    plan: ClusterPlan, *, may_restart: bool, is_json: bool, console_port: int | None
) -> None:
    """Run the cluster until SIGINT or SIGTERM; a second signal kills all remaining processes.

    SIGHUP stops it too, unless nohup has set it to be ignored. A terminal that closes may send
    SIGHUP twice, from the shell and from the system, so SIGHUP never kills.

    A console starts on `console_port`, or on a free port if that is taken; None starts none.

    Raises:
        CommandError: the cluster could not start or continue; all processes have been stopped.
    """
    # Silences the client: a supervisor expects brokers that do not respond yet, or no longer.
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    asyncio.run(_run(plan, may_restart, is_json, console_port))


async def _run(
    plan: ClusterPlan, may_restart: bool, is_json: bool, console_port: int | None
) -> None:
    table = _table() if is_terminal() and not is_json else None

    def left_out(count: int) -> str:
        return json_line_of(LeftOut(count)) if is_json else line_of(LeftOut(count))

    # A table replaces all earlier ones, so none is missed.
    async with outputs_without_waiting(left_out if table is None else lambda _: "", left_out):
        await _run_cluster(plan, may_restart, is_json, console_port, table)


async def _run_cluster(
    plan: ClusterPlan,
    may_restart: bool,
    is_json: bool,
    console_port: int | None,
    table: "LiveTable | None",
) -> None:
    report = report_json if is_json else table.report if table else report_line

    def report_if_possible(event: Event) -> None:
        # Restarts and the orderly stop continue after a hangup, the end of a reader or a full disk.
        with contextlib.suppress(OSError):
            report(event)

    supervisor = Supervisor(plan, may_restart=may_restart, report=report_if_possible)
    beside = []
    if console_port is not None:
        beside.append(lambda: run_console(plan, console_port, report_if_possible))
    if table is not None:
        beside.append(lambda: table.follow(supervisor))
    work = asyncio.create_task(_work(supervisor, beside))
    stopping = asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            supervisor.kill()
        stopping.set()
        work.cancel()

    def on_hangup() -> None:
        if not stopping.is_set():
            stopping.set()
            work.cancel()

    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, on_hangup)
    try:
        await asyncio.wait((work,))
        if not work.cancelled() and (failure := work.exception()):
            raise failure
    finally:
        await supervisor.stop()


def _table() -> "LiveTable":
    from ottla.cli.up.live_table import LiveTable

    return LiveTable()


async def _work(supervisor: Supervisor, beside: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Start the cluster, and supervise it; run the works `beside` it once it is ready."""
    await supervisor.start()
    works = [asyncio.ensure_future(work()) for work in (supervisor.run, *beside)]
    try:
        # Not `gather`: with its own cancellation each work would be cancelled twice, and the second
        # one would interrupt the orderly end of a work.
        done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_EXCEPTION)
        for work in done:
            work.result()
    finally:
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
