"""The tables of metrics in `docs/monitoring.md` (composition)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from monitoring.exposition import Family

HEADING: Final = "## Metrics\n\n"
"""Everything behind it is generated."""


def monitoring_page(current: str, notice: str) -> str:
    """Return the page `current` with the tables of today."""
    from broker.status.families import FAMILIES
    from coordination.server.metrics_page import COORDINATOR_FAMILIES
    from monitoring.process_metrics import PROCESS_FAMILIES

    sections = {**FAMILIES, "Coordinator": (*COORDINATOR_FAMILIES, *PROCESS_FAMILIES)}
    text = "".join(f"### {title}\n\n{_table(each)}\n" for title, each in sections.items())
    return f"{current.partition(HEADING)[0]}{HEADING}{notice}{text}".rstrip() + "\n"


def _table(families: Iterable["Family"]) -> str:
    lines = ["| Metric | Kind | Labels | Meaning |", "| --- | --- | --- | --- |"]
    for each in families:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        lines.append(f"| `{each.name}` | {each.kind} | {labels} | {each.meaning} |")
    return "\n".join(lines) + "\n"
