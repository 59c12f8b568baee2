"""Every planted bug is found: by a world, a story, a scenario, or a test of the decision."""

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.simulation.world.mutants import MUTANTS
from tests.simulation.world.scenarios import SCENARIOS
from tests.simulation.world.stage import play
from tests.simulation.world.stories import STORIES
from tests.simulation.world.survey import BY_TEST, SEEDS, is_found_at_once, is_found_by

ROOT: Final = Path(__file__).parents[3]
TABLE: Final = ROOT / "docs" / "planted-bugs.md"
EARLY: Final = (
    "acknowledged_at_once",
    "any_generation",
    "anyone_joins",
    "commits_at_once",
    "cut_at_the_watermark",
    "followers_without_producers",
    "kept_records",
    "shared_partitions",
    "silent_controller",
    "uncommitted_reads",
    "watermark_without_followers",
)
"""Planted bugs that appear in the first seconds of a world."""
LATE: Final = sorted(MUTANTS.keys() - set(EARLY) - set(SCENARIOS) - set(STORIES) - set(BY_TEST))


@pytest.mark.fresh_seeds(1)
def test_a_planted_bug_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[Random(seed).choice(EARLY)].plant(monkeypatch)
    assert any(map(is_found_by, range(SEEDS)))


@pytest.mark.soak
@pytest.mark.parametrize("name", [*EARLY, *LATE])
def test_a_planted_bug_is_found_in_many_worlds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name].plant(monkeypatch)
    assert any(map(is_found_by, range(SEEDS)))


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(BY_TEST))
def test_a_planted_bug_is_found_by_a_unit_test(name: str) -> None:
    program = (
        "import sys, pytest\n"
        "from tests.simulation.world.mutants import MUTANTS\n"
        f"MUTANTS[{name!r}].plant(pytest.MonkeyPatch())\n"
        f"sys.exit(pytest.main(['-qx', '-pno:cacheprovider', 'tests/unit/{BY_TEST[name]}']))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("name", sorted({*SCENARIOS, *STORIES}))
def test_a_planted_bug_is_found_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name].plant(monkeypatch)
    assert is_found_at_once(name)


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_story_ends_well_without_its_bug(name: str) -> None:
    play(0, STORIES[name])


def test_the_table_names_every_planted_bug() -> None:
    rows = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    assert [line.split("`")[1] for line in rows] == sorted(MUTANTS)
