"""The live table of a running cluster on a terminal (edge)."""

import asyncio
import contextlib
from collections import deque
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ottla.cli.up.cluster_table import COLUMNS, Member, Observation, broker_rows, summary
from ottla.cli.up.events import ConsoleStarted, Event, Joinable, NoConsole, Ready, Secured
from ottla.cli.up.report import report_line
from ottla.cli.up.supervisor import Supervisor
from ottla.cli.up.table_observations import TableObservations

REFRESH_INTERVAL_S: Final = 2.0
EVENTS_SHOWN: Final = 5


class LiveTable:
    """A table of the brokers that refreshes itself, with the latest events below it."""

    def __init__(self) -> None:
        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self._is_shown = False

    def report(self, event: Event) -> None:
        """Show the event below the table; print `ready`, and all without a table, as lines."""
        is_permanent = isinstance(event, Ready | Secured | Joinable | ConsoleStarted | NoConsole)
        if is_permanent or not self._is_shown:
            report_line(event)
        else:
            self._events.append(str(event))

    async def follow(self, supervisor: Supervisor) -> None:
        """Refresh the table until cancelled."""
        observations, before = TableObservations(supervisor.plan.bootstrap, supervisor.login), None
        # No refresh thread: the supervisor forks, which is unsafe with other threads.
        live = Live(auto_refresh=False)
        try:
            # Without its terminal only the table ends, not the cluster.
            with contextlib.suppress(OSError), live:
                # Where the cursor cannot move, rich shows only the last table, at the end.
                self._is_shown = not live.console.is_dumb_terminal
                while True:
                    now = await observations.observe(_pids(supervisor))
                    live.update(self._page(supervisor, now, before), refresh=True)
                    before = now
                    await asyncio.sleep(REFRESH_INTERVAL_S)
        finally:
            self._is_shown = False
            await observations.close()

    def _page(self, supervisor: Supervisor, now: Observation, before: Observation | None) -> Group:
        table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
        for name in COLUMNS:
            table.add_column(name, justify="left" if name == "role" else "right")
        for row in broker_rows(members(supervisor), now, before):
            table.add_row(*map(str, row))
        head = f"{summary(now, before)}; coordinator {supervisor.plan.connect}; Ctrl-C stops"
        return Group(table, Text(head), *map(Text, self._events))


def members(supervisor: Supervisor) -> list[Member]:
    """Return the brokers as their supervisor sees them now."""
    pids = _pids(supervisor)
    return [
        Member(
            broker.broker_id or 0,
            broker.name,
            broker.address,
            pids.get(broker.name),
            broker.broker_id in supervisor.registrations.registered,
        )
        for broker in supervisor.plan.brokers
    ]


def _pids(supervisor: Supervisor) -> dict[str, int]:
    return {name: process.pid for name, process in supervisor.running.items()}
