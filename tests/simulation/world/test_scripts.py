"""Scripts of worlds: they are drawn from seeds, printed, replayed, and shrunk when they fail."""

from collections.abc import Awaitable, Callable
from random import Random

import pytest
import structlog

from broker.node import Node
from tests.simulation.world import script
from tests.simulation.world.mutants import MUTANTS
from tests.simulation.world.runner import Totals, attempt, replay, shrunk
from tests.simulation.world.script import KINDS, Fault, Script, Shrinking, draw_script
from tests.simulation.world.trouble import Trouble
from tests.simulation.world.world import Outcome

FAULTS_S = 2.0
BY_KILL = Fault(1.0, "kill_broker", 4)
SMALL = Script(
    seed=3,
    faults_s=FAULTS_S,
    has_operators=True,
    faults=(Fault(0.5, "reset", 1), BY_KILL, Fault(1.5, "step_clock", 3)),
)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """The outcome of the small script."""
    found = attempt(SMALL)
    assert isinstance(found, Outcome)
    return found


def test_every_kind_of_fault_is_made() -> None:
    assert {each for each in KINDS if not hasattr(Trouble, f"_{each}")} == set()


def test_a_printed_script_is_python() -> None:
    drawn = draw_script(2, 20.0, has_operators=False, has_any_size=True)
    assert drawn.faults
    assert drawn.broker_count == 5
    assert eval(str(drawn), vars(script)) == drawn
    assert draw_script(6, 20.0, has_operators=False).faults != drawn.faults


def test_a_seed_may_draw_the_number_of_brokers() -> None:
    counts = {
        draw_script(seed, 1.0, has_operators=False, has_any_size=True).broker_count
        for seed in range(50)
    }
    assert counts == {1, 2, 3, 4, 5}
    assert draw_script(5, 1.0, has_operators=False).broker_count == 3


@pytest.mark.fresh_seeds(5)
def test_shrinking_keeps_the_faults_that_matter(seed: int) -> None:
    drawn = draw_script(seed, 30.0, has_operators=True, has_any_size=True)
    needed = set(Random(seed).sample(drawn.faults, min(2, len(drawn.faults))))
    found = Shrinking(lambda each: needed <= set(each.faults)).shrink(drawn)
    assert set(found.faults) == needed
    assert not found.has_operators
    assert found.broker_count == 3
    assert found.faults_s <= 31.0


def test_shrinking_tries_other_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "MAX_RUNS", 50)
    tried: list[int] = []

    def fails(each: Script) -> bool:
        tried.append(each.seed)
        return len(each.faults) == len(SMALL.faults) - each.seed + SMALL.seed

    found = Shrinking(fails).shrink(SMALL)
    assert found.seed > SMALL.seed
    assert len(found.faults) < len(SMALL.faults)
    assert len(tried) <= 50


@pytest.mark.usefixtures("outcome")
def test_a_failing_script_shrinks_to_a_small_one_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted bug: a broker gives up soon after a start with the logs of an earlier one."""
    start: Callable[[Node], Awaitable[None]] = Node.start

    async def give_up(node: Node) -> None:
        await start(node)
        if any(True for _ in node._logs):
            node._fail("planted")

    monkeypatch.setattr(script, "SEEDS_PER_STEP", 1)
    monkeypatch.setattr(Node, "start", give_up)
    found = shrunk(SMALL)
    assert found.faults == (BY_KILL,)
    assert not found.has_operators
    assert str(attempt(found)).startswith("FAILED AssertionError in check_alive: b")


@pytest.mark.soak
def test_a_script_with_a_planted_bug_shrinks_to_a_few_faults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MUTANTS["kept_records"].plant(monkeypatch)
    scripts = (draw_script(seed, 20.0, has_operators=False) for seed in range(100))
    failing = next(each for each in scripts if isinstance(attempt(each), str))
    found = shrunk(failing)
    assert len(found.faults) <= 3 < len(failing.faults)
    assert isinstance(attempt(found), str)


def test_a_replay_has_the_trace_of_the_first_run(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(structlog, "configure", lambda **_: None)
    replay(SMALL)
    assert f"trace {outcome.trace:08x};" in capsys.readouterr().out


def test_a_report_counts_the_operations_during_each_fault(outcome: Outcome) -> None:
    totals = Totals()
    totals.world_count += 1
    totals.add(outcome)
    report = str(totals)
    assert "1 worlds, 0 failed" in report
    assert "kill_broker 1" in report
    assert outcome.overlaps["kill_broker", "start of BrokerHost"] == 1
    assert outcome.overlaps["kill_broker", "Produce"] > 0
    assert outcome.operation_counts["start of BrokerHost"] == 4
