"""Runs a supervisor until somebody wants it to stop (composition)."""

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Final

from ottla.cli.terminal import is_terminal
from ottla.cli.up.events import Event
from ottla.cli.up.plan import ClusterPlan
from ottla.cli.up.report import report_json, report_line
from ottla.cli.up.supervisor import Supervisor

if TYPE_CHECKING:
    from ottla.cli.up.show import LiveTable

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_until_signal(plan: ClusterPlan, *, may_restart: bool, is_json: bool) -> None:
    """Run the cluster until SIGINT or SIGTERM; a second one kills what still runs.

    SIGHUP stops it too, unless nohup has it ignored. It may come twice for one terminal that ends,
    from the shell and from the system, so it never kills.

    Raises:
        CommandError: it could not start or go on; everything is stopped by then.
    """
    # Brokers that do not answer yet, or not any more, are what a supervisor expects.
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    asyncio.run(_run(plan, may_restart, is_json))


async def _run(plan: ClusterPlan, may_restart: bool, is_json: bool) -> None:
    table = _table() if is_terminal() and not is_json else None
    report = report_json if is_json else table.report if table else report_line
    hung_up = asyncio.Event()

    def tell(event: Event) -> None:
        try:
            report(event)
        except OSError:
            # The terminal has gone, which must not keep it from stopping in order.
            if not hung_up.is_set():
                raise

    supervisor = Supervisor(plan, may_restart=may_restart, report=tell)
    work = asyncio.create_task(_work(supervisor, table))
    stopping = asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            supervisor.kill()
        stopping.set()
        work.cancel()

    def on_hangup() -> None:
        hung_up.set()
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
    from ottla.cli.up.show import LiveTable

    return LiveTable()


async def _work(supervisor: Supervisor, table: "LiveTable | None") -> None:
    await supervisor.start()
    shown = () if table is None else (table.follow(supervisor),)
    await asyncio.gather(supervisor.run(), *shown)
