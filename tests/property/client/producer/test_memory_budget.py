"""The sum is correct and the order kept for any claims, withdrawals and releases."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producer.memory_budget import Claim, MemoryBudget

TOTAL = 100


@given(st.lists(st.tuples(st.sampled_from("rcwg"), st.integers(1, TOTAL)), max_size=60))
def test_no_byte_is_lost_or_granted_twice(actions: list[tuple[str, int]]) -> None:
    budget = MemoryBudget(TOTAL)
    held: list[int] = []
    claims: list[Claim] = []
    granted: list[Claim] = []
    for action, size in actions:
        if action == "r" and budget.try_reserve(size):
            held.append(size)
        elif action == "c":
            before = len(claims)
            claims.append(budget.claim(size, lambda index=before: granted.append(index)))  # type: ignore[misc]
        elif action == "w" and claims:
            budget.withdraw(claims.pop(size % len(claims)))
        elif action == "g" and held:
            budget.release(held.pop(size % len(held)))
        taken = sum(held) + sum(claim.size_bytes for claim in claims if claim.is_granted)
        assert budget.free_bytes == TOTAL - taken >= 0
        waiting = [claim for claim in claims if not claim.is_granted]
        assert budget.is_exhausted == bool(waiting)
        # Only the oldest waiting claim may block others.
        assert not waiting or waiting[0].size_bytes > budget.free_bytes
