"""The table of damage in docs/audits.md. `python -m tests.analytics.histories.table` writes it."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import structlog

from tests.analytics.histories.damage import DAMAGES
from tests.analytics.histories.damaged import Row, judge_damage, make_bases
from tests.analytics.histories.unknowable import NOT_FOUND_YET, UNKNOWABLE

PAGE: Final = Path(__file__).parents[3] / "docs" / "audits.md"
HEAD: Final = (
    "| Damage | Never cleaned: alone | beside a sound log | Cleaned: alone | beside a sound log |"
)
LINE: Final = "| --- | --- | --- | --- | --- |"
DOES_NOT_APPLY: Final = "does not apply"
NOT_YET: Final = "not found yet"

Rows = tuple[Row | None, Row | None]


def row_text(name: str, rows: Rows) -> str:
    """Return the line of one damage."""
    cells = [cell for part, row in enumerate(rows) for cell in _cells(name, row, part)]
    return f"| {' | '.join([name, *cells])} |"


def _cells(name: str, row: Row | None, part: int) -> tuple[str, str]:
    if row is None:
        return DOES_NOT_APPLY, ""
    if row.alone or row.compared:
        return _kinds(row.alone), _kinds(row.compared)
    is_late = part in NOT_FOUND_YET.get(name, ())
    return NOT_YET if is_late else f"unknowable: {UNKNOWABLE.get(name, '')}", ""


def _kinds(kinds: Iterable[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in sorted(kinds))


def documented() -> dict[str, list[str]]:
    """Return the cells of the page's table, by the names of the damage."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEAD) + 2
    found = {}
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        found[name] = cells
    return found


def main() -> None:
    """Write the table into the page."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with tempfile.TemporaryDirectory() as root:
        bases = make_bases(Path(root) / "bases")
        work = Path(root) / "work"
        rows = [
            row_text(
                name,
                (
                    judge_damage(bases, damage, work, is_cleaned=False),
                    judge_damage(bases, damage, work, is_cleaned=True),
                ),
            )
            for name, damage in DAMAGES.items()
        ]
    before, rest = PAGE.read_text(encoding="utf-8").split(f"{HEAD}\n{LINE}\n")
    after = rest[rest.index("\n## ") + 1 :]
    table = "\n".join([HEAD, LINE, *rows])
    PAGE.write_text(f"{before}{table}\n\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
