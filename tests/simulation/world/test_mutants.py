"""Every planted bug is detected: by a simulated world, or by a test of the decision it breaks."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

import pytest
from structlog.testing import capture_logs

from tests.simulation.world.mutants import MUTANTS
from tests.simulation.world.scenarios import SCENARIOS
from tests.simulation.world.world import FAULTS_S, quiet_collection, run_world

ROOT: Final = Path(__file__).parents[3]
SEEDS_PER_MUTANT: Final = 200
EARLY: Final = (
    "acknowledged_at_once",
    "anyone_joins",
    "followers_without_producers",
    "shared_partitions",
    "silent_controller",
    "uncommitted_reads",
    "watermark_without_followers",
)
"""Planted bugs that appear in the first seconds of a world."""
BY_TEST: Final[Mapping[str, str]] = {
    "any_controller": "broker/cluster/test_control_fence.py",
    "any_generation": "broker/groups/test_group_states.py",
    "any_leader_epoch": "broker/cluster/test_control_fence.py",
    "any_stop": "broker/cluster/test_control_fence.py",
    "blind_memory": "controller/test_plans.py",
    "commits_at_once": "broker/groups/test_store.py",
    "emptied_checkpoint": "storage/directory/test_directory_faults.py",
    "inherited_directories": "storage/directory/test_directory_faults.py",
    "kept_records": "broker/replication/test_divergence.py",
    "last_copy_deleted": "controller/test_plans.py",
    "last_member_leaves": "controller/test_leader_elections.py",
    "leaving_does_not_count": "broker/replication/test_leadership.py",
    "no_fence": "controller/test_zombie.py",
    "one_full_directory": "storage/directory/test_directory_faults.py",
    "poisoned_group_log": "broker/groups/test_replay.py",
    "sessions_for_strangers": "broker/replication/test_fetch_session.py",
    "stale_epochs": "storage/log/test_epoch_checkpoint.py",
    "stale_recovery_points": "storage/directory/test_directory_faults.py",
    "unchecked_epochs": "broker/replication/test_replica_table.py",
    "unchecked_history": "broker/replication/test_divergence.py",
    "unseen_bounces": "controller/test_plans.py",
}
"""Unit tests that detect bugs which need a rare coincidence in a world."""
UNPROVEN: Final = frozenset(
    {
        "abandoned_creations",
        "cleaned_active_segment",
        "commits_as_nobody",
        "cut_at_the_watermark",
        "diverging_fetch_counts",
        "one_own_session",
        "recovery_point_without_sync",
        "recycled_arenas",
        "unsynced_transactions",
    }
)
"""Bugs that survived a few worlds each: a judge or a fault may be missing."""
LATE: Final = sorted(MUTANTS.keys() - set(EARLY) - set(SCENARIOS) - set(BY_TEST) - UNPROVEN)


def is_found_by_a_seed() -> bool:
    return any(is_found_by(seed) for seed in range(SEEDS_PER_MUTANT))


def is_found_by(seed: int) -> bool:
    with quiet_collection(), capture_logs():
        try:
            run_world(seed, FAULTS_S, has_operators=seed % 2 == 0)
        except Exception:
            # A planted bug may show as an error of any client.
            return True
    return False


@pytest.mark.fresh_seeds(2)
def test_a_planted_bug_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[Random(seed).choice(EARLY)].plant(monkeypatch)
    assert is_found_by_a_seed()


@pytest.mark.soak
@pytest.mark.parametrize("name", [*EARLY, *LATE])
def test_a_planted_bug_is_found_in_many_worlds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name].plant(monkeypatch)
    assert is_found_by_a_seed()


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


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_planted_bug_is_found_by_its_scenario(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    SCENARIOS[name]()
    MUTANTS[name].plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - the bug may show as any error
        SCENARIOS[name]()
