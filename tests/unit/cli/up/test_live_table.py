"""The table of a running cluster on a small terminal: `ottla.cli.up.live_table`."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from rich.console import Console

from ottla.cli.up.cluster_table import COLUMNS, Observation, Usage
from ottla.cli.up.live_table import LiveTable
from ottla.cli.up.plan import make_plan
from ottla.cli.up.supervisor import Supervisor


def test_table_fits_eighty_columns() -> None:
    plan = make_plan(
        Path("/data"), broker_ports=range(31_998, 32_001), coordinator_port=31_997, overrides={}
    )
    supervisor = SimpleNamespace(
        plan=plan,
        running={each.name: SimpleNamespace(pid=4_194_303) for each in plan.brokers},
        census=SimpleNamespace(registered={1, 2}),
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
