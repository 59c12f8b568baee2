"""Waiting for a change or a deadline: `broker.purgatory`."""

import asyncio
from collections.abc import Callable

import pytest

from broker.network.reply import Reply
from broker.purgatory import Purgatory, Waiting

PARKED_COUNT = 10_000


class Threshold:
    """An operation that is satisfied when a watched key has reached a number."""

    def __init__(self, counts: dict[str, int], needed: int) -> None:
        self.counts = counts
        self.needed = needed
        self.asked: list[str | None] = []
        self.completed_count = 0

    def is_satisfied(self, changed: str | None) -> bool:
        self.asked.append(changed)
        return sum(self.counts.values()) >= self.needed

    def complete(self) -> None:
        self.completed_count += 1


class AppearsBetween(Threshold):
    """An operation whose condition becomes true between the first check and the second."""

    def is_satisfied(self, changed: str | None) -> bool:
        self.asked.append(changed)
        return len(self.asked) > 1


def test_an_operation_that_is_satisfied_already_is_not_watched() -> None:
    waiting: Waiting[str] = Waiting()
    assert not waiting.add(Threshold({"a": 1}, needed=1), ["a"])
    assert (waiting.operation_count, waiting.watcher_count) == (0, 0)


def test_a_change_between_the_two_checks_is_not_missed() -> None:
    waiting: Waiting[str] = Waiting()
    assert not waiting.add(AppearsBetween({}, needed=1), ["a", "b"])
    assert (waiting.operation_count, waiting.watcher_count) == (0, 0)


def test_only_a_change_that_satisfies_ends_the_wait() -> None:
    counts = {"a": 0, "b": 0}
    waiting: Waiting[str] = Waiting()
    operation = Threshold(counts, needed=2)
    assert waiting.add(operation, ["a", "b"])
    counts["a"] = 1
    assert waiting.satisfied_by("a") == []
    counts["b"] = 1
    assert waiting.satisfied_by("b") == [operation]
    assert operation.asked[-2:] == ["a", "b"]
    assert (waiting.operation_count, waiting.watcher_count) == (0, 0)


def test_the_oldest_operations_come_first() -> None:
    counts = {"a": 0}
    waiting: Waiting[str] = Waiting()
    operations = [Threshold(counts, needed=1) for _ in range(3)]
    for operation in operations:
        waiting.add(operation, ["a"])
    counts["a"] = 1
    assert waiting.satisfied_by("a") == operations


def test_a_key_named_twice_is_watched_once() -> None:
    waiting: Waiting[str] = Waiting()
    waiting.add(Threshold({}, needed=1), ["a", "a"])
    assert waiting.watcher_count == 1


def test_removing_an_operation_that_does_not_wait_changes_nothing() -> None:
    waiting: Waiting[str] = Waiting()
    operation = Threshold({}, needed=1)
    waiting.add(operation, ["a"])
    assert waiting.remove(operation)
    assert not waiting.remove(operation)
    assert "a" not in waiting.watched_keys


@pytest.fixture
def purgatory() -> Callable[[], Purgatory[str]]:
    return lambda: Purgatory(asyncio.get_running_loop())


async def turn() -> None:
    """Run all scheduled callbacks, including the ones that they schedule."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_satisfied_operation_is_completed_at_once(
    purgatory: Callable[[], Purgatory[str]],
) -> None:
    operation = Threshold({"a": 1}, needed=1)
    purgatory().hold(operation, ["a"], timeout_ms=60_000)
    assert operation.completed_count == 1


async def test_an_operation_completes_after_the_code_that_woke_it_has_finished(
    purgatory: Callable[[], Purgatory[str]],
) -> None:
    held, counts = purgatory(), {"a": 0}
    operation = Threshold(counts, needed=1)
    held.hold(operation, ["a"], timeout_ms=60_000)
    counts["a"] = 1
    held.on_change("a")
    assert operation.completed_count == 0, "it ran in the call stack of the code that woke it"
    await turn()
    assert operation.completed_count == 1
    assert held.waiting.watcher_count == 0


async def test_many_changes_in_one_turn_cause_one_check(
    purgatory: Callable[[], Purgatory[str]],
) -> None:
    held = purgatory()
    operation = Threshold({}, needed=1)
    held.hold(operation, ["a"], timeout_ms=60_000)
    looks_before = len(operation.asked)
    for _ in range(10):
        held.on_change("a")
    held.on_change("unwatched")
    await turn()
    assert len(operation.asked) == looks_before + 1
    held.cancel(operation)


async def test_an_operation_completes_at_its_deadline(
    purgatory: Callable[[], Purgatory[str]],
) -> None:
    held = purgatory()
    done = asyncio.Event()
    operation = Threshold({}, needed=1)
    operation.complete = done.set  # type: ignore[method-assign]
    held.hold(operation, ["a"], timeout_ms=1)
    await asyncio.wait_for(done.wait(), timeout=10)
    assert held.waiting.operation_count == 0


async def test_an_operation_woken_at_its_deadline_completes_once(
    purgatory: Callable[[], Purgatory[str]],
) -> None:
    held, counts = purgatory(), {"a": 0}
    operation = Threshold(counts, needed=1)
    held.hold(operation, ["a"], timeout_ms=0)
    counts["a"] = 1
    held.on_change("a")
    held.on_change("a")
    await turn()
    assert operation.completed_count == 1


async def test_a_cancelled_operation_is_never_completed(
    purgatory: Callable[[], Purgatory[str]],
) -> None:
    held, counts = purgatory(), {"a": 0}
    operation = Threshold(counts, needed=1)
    held.hold(operation, ["a"], timeout_ms=1)
    held.cancel(operation)
    held.cancel(operation)
    counts["a"] = 1
    held.on_change("a")
    await turn()
    assert operation.completed_count == 0


async def test_closing_completes_all_waiting_operations(
    purgatory: Callable[[], Purgatory[str]],
) -> None:
    held = purgatory()
    operations = [Threshold({}, needed=1) for _ in range(3)]
    for operation in operations:
        held.hold(operation, ["a"], timeout_ms=60_000)
    held.close()
    assert [operation.completed_count for operation in operations] == [1, 1, 1]
    late = Threshold({}, needed=1)
    held.hold(late, ["a"], timeout_ms=60_000)
    assert late.completed_count == 1
    assert held.waiting.watcher_count == 0


async def test_a_failing_operation_does_not_stop_the_others(
    purgatory: Callable[[], Purgatory[str]],
) -> None:
    held, counts = purgatory(), {"a": 0}
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context["exception"]))

    def fail() -> None:
        raise RuntimeError("a bug")

    bad, good = Threshold(counts, needed=1), Threshold(counts, needed=1)
    bad.complete = fail  # type: ignore[method-assign]
    for operation in (bad, good):
        held.hold(operation, ["a"], timeout_ms=60_000)
    counts["a"] = 1
    held.on_change("a")
    await turn()
    assert good.completed_count == 1
    assert [str(failure) for failure in failures] == ["a bug"]


async def test_many_cancelled_operations_leave_nothing_behind(
    purgatory: Callable[[], Purgatory[str]],
) -> None:
    held = purgatory()
    replies = []
    for number in range(PARKED_COUNT):
        operation, reply = Threshold({}, needed=1), Reply()
        held.hold(operation, ["a", f"b{number % 100}"], timeout_ms=600_000)
        reply.on_cancel(lambda operation=operation: held.cancel(operation))  # type: ignore[misc]
        replies.append(reply)
    assert held.waiting.watcher_count == 2 * PARKED_COUNT
    for reply in replies:
        reply.cancel()
    assert (held.waiting.operation_count, held.waiting.watcher_count) == (0, 0)
    assert not held._timers
