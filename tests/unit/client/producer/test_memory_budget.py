"""Memory is granted in the order of the claims and never beyond the budget."""

from ottla.client.producer.memory_budget import Claim, MemoryBudget


class Granted:
    """Claims on one budget, and the names of granted claims in order."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self.order: list[str] = []

    def claim(self, name: str, size_bytes: int) -> Claim:
        return self.budget.claim(size_bytes, lambda: self.order.append(name))


def test_free_memory_is_reserved_at_once() -> None:
    budget = MemoryBudget(100)
    assert budget.try_reserve(60)
    assert not budget.try_reserve(41)
    assert budget.try_reserve(40)
    budget.release(100)
    assert budget.free_bytes == 100


def test_claims_are_granted_in_order_even_when_a_later_one_would_fit() -> None:
    budget = MemoryBudget(100)
    assert budget.try_reserve(90)
    granted = Granted(budget)
    granted.claim("large", 50)
    granted.claim("small", 10)
    waiting = [budget.is_exhausted]
    assert granted.order == []
    budget.release(90)
    assert granted.order == ["large", "small"]
    assert [*waiting, budget.is_exhausted] == [True, False]
    assert budget.free_bytes == 40


def test_a_reservation_does_not_overtake_a_waiting_claim() -> None:
    budget = MemoryBudget(100)
    assert budget.try_reserve(90)
    Granted(budget).claim("waiting", 50)
    assert not budget.try_reserve(5)


def test_withdrawing_a_waiting_claim_lets_the_next_one_in() -> None:
    budget = MemoryBudget(100)
    assert budget.try_reserve(60)
    granted = Granted(budget)
    large = granted.claim("large", 90)
    granted.claim("small", 40)
    budget.withdraw(large)
    assert granted.order == ["small"]
    assert budget.free_bytes == 0


def test_withdrawing_a_granted_claim_releases_its_memory() -> None:
    budget = MemoryBudget(100)
    granted = Granted(budget)
    claim = granted.claim("at once", 100)
    granted.claim("next", 100)
    budget.withdraw(claim)
    assert granted.order == ["at once", "next"]
    assert budget.free_bytes == 0
