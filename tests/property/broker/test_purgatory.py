"""The watch lists of operations agree with a naive model: `broker.purgatory.Waiting`."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.purgatory import Waiting

KEYS = st.integers(0, 3)


class Operation:
    """An operation that waits until the sum of its keys' counts reaches a number."""

    def __init__(self, counts: dict[int, int], keys: list[int], needed: int) -> None:
        self.counts = counts
        self.keys = keys
        self.needed = needed

    @property
    def has_enough(self) -> bool:
        return sum(self.counts.get(key, 0) for key in self.keys) >= self.needed

    def is_satisfied(self, changed: int | None) -> bool:
        assert changed is None or changed in self.keys, "asked about a key of somebody else"
        return self.has_enough

    def complete(self) -> None:
        raise AssertionError("the decision completes nothing")


class WaitingMachine(RuleBasedStateMachine):
    """Adds, changes and removes operations; the model is a list with linear search."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: Waiting[int] = Waiting()
        self.counts: dict[int, int] = {}
        self.model: list[Operation] = []

    @rule(keys=st.lists(KEYS, min_size=1, max_size=4), needed=st.integers(0, 6))
    def add(self, keys: list[int], needed: int) -> None:
        operation = Operation(self.counts, sorted(set(keys)), needed)
        assert self.waiting.add(operation, keys) is not operation.has_enough
        if not operation.has_enough:
            self.model.append(operation)

    @rule(key=KEYS)
    def change(self, key: int) -> None:
        self.counts[key] = self.counts.get(key, 0) + 1
        expected = [each for each in self.model if key in each.keys and each.has_enough]
        assert self.waiting.satisfied_by(key) == expected
        self.model = [each for each in self.model if each not in expected]

    @rule(number=st.integers(0, 5))
    def remove(self, number: int) -> None:
        if number < len(self.model):
            operation = self.model.pop(number)
            assert self.waiting.remove(operation)
            assert not self.waiting.remove(operation)

    @invariant()
    def nobody_else_is_watched(self) -> None:
        assert self.waiting.operation_count == len(self.model)
        assert self.waiting.watcher_count == sum(len(each.keys) for each in self.model)
        for key in range(4):
            is_watched = any(key in each.keys for each in self.model)
            assert (key in self.waiting.watched_keys) is is_watched


WaitingMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
TestWaiting = WaitingMachine.TestCase
