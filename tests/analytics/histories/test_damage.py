"""Each damage of `damage.py` is found, or stands in the list of unknowable damage.

docs/audits.md has a table of the findings. An audit may find more than the table says, never less.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from tests.analytics.histories.damage import DAMAGES
from tests.analytics.histories.damaged import Bases, Row, judge_damage, make_bases
from tests.analytics.histories.edited_log import EditedLog
from tests.analytics.histories.table import documented
from tests.analytics.histories.unknowable import (
    FOUND_IN_SOME_LOGS,
    NOT_AGREED_YET,
    NOT_FOUND_YET,
    UNKNOWABLE,
)

MEMORY: Final = Path("/dev/shm")
PARTS: Final = (0, 1)
"""The log that was never cleaned, and the cleaned part of the other."""


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """Return a directory in memory, if there is one."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def bases(memory: Path) -> Bases:
    with capture_logs():
        return make_bases(memory / "bases")


def rows_of(name: str, bases: Bases, work: Path) -> list[Row | None]:
    damage = DAMAGES[name]
    return [judge_damage(bases, damage, work, is_cleaned=bool(part)) for part in PARTS]


def test_no_audit_finds_anything_without_damage(bases: Bases, memory: Path) -> None:
    for part in PARTS:
        row = judge_damage(bases, EditedLog.save, memory / "work", is_cleaned=bool(part))
        assert row is not None
        assert not row.alone | row.compared


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found(name: str, bases: Bases, memory: Path) -> None:
    rows = rows_of(name, bases, memory / "work")
    assert any(rows), "the damage has no effect on either log"
    missed = {part for part, row in enumerate(rows) if row and not row.alone | row.compared}
    disagreed = {part for part, row in enumerate(rows) if row and row.verify != row.integrity}
    if name in UNKNOWABLE:
        assert missed, "an audit knows it, so it is not unknowable"
    else:
        assert missed == set(NOT_FOUND_YET.get(name, ()))
    assert disagreed == set(NOT_AGREED_YET.get(name, ()))
    cells = iter(documented()[name])
    for row, alone, compared in zip(rows, cells, cells, strict=True):
        assert (row is None) == (alone == "does not apply")
        if row is not None:
            assert kinds_in(alone) <= row.alone
            assert kinds_in(compared) <= row.compared | row.alone


def kinds_in(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def test_table_has_every_damage_and_the_lists_have_no_others() -> None:
    assert list(documented()) == list(DAMAGES)
    assert {*UNKNOWABLE, *FOUND_IN_SOME_LOGS, *NOT_FOUND_YET, *NOT_AGREED_YET} <= DAMAGES.keys()
    assert not UNKNOWABLE.keys() & NOT_FOUND_YET.keys()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_damage_to_other_logs_is_found(seed: int, memory: Path) -> None:
    with capture_logs():
        bases = make_bases(memory / f"bases-{seed}", seed)
    missed = {
        (name, part)
        for name in DAMAGES
        if name not in {*UNKNOWABLE, *FOUND_IN_SOME_LOGS}
        for part, row in enumerate(rows_of(name, bases, memory / "work"))
        if row and not row.alone | row.compared and part not in NOT_FOUND_YET.get(name, ())
    }
    assert not missed
