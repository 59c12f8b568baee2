"""Large frames reserve memory in line; what was read is kept within a budget."""

from __future__ import annotations

import pytest

from broker.network.receive_memory import ReceiveMemory, ReceiveMemoryExhaustedError


class Waiter:
    """Reserves when it is woken."""

    def __init__(self, memory: ReceiveMemory, size_bytes: int) -> None:
        self.memory = memory
        self.size_bytes = size_bytes
        self.has_memory = False

    def wait(self) -> Waiter:
        self.memory.wait(self.on_memory, self.size_bytes)
        return self

    def on_memory(self) -> None:
        self.has_memory = self.memory.try_reserve(self.size_bytes)


def test_reservations_stay_within_the_limit() -> None:
    memory = ReceiveMemory(100)
    assert [memory.try_reserve(40) for _ in range(3)] == [True, True, False]
    assert memory.reserved_bytes == 80


def test_one_frame_alone_may_exceed_the_limit() -> None:
    memory = ReceiveMemory(100)
    assert memory.try_reserve(104)
    assert not memory.try_reserve(1)


def test_whoever_waits_is_served_in_order() -> None:
    memory = ReceiveMemory(100)
    assert memory.try_reserve(90)
    first, second = Waiter(memory, 50).wait(), Waiter(memory, 50).wait()
    memory.release(90)
    memory.wake()
    assert (first.has_memory, second.has_memory) == (True, True)


def test_a_large_waiter_is_not_starved_by_small_newcomers() -> None:
    memory = ReceiveMemory(100)
    assert memory.try_reserve(60)
    large = Waiter(memory, 100).wait()
    assert not memory.try_reserve(10), "it would fit, but others wait"
    behind = Waiter(memory, 10).wait()
    memory.wake()
    assert (large.has_memory, behind.has_memory) == (False, False)
    memory.release(60)
    memory.wake()
    assert (large.has_memory, behind.has_memory) == (True, False)


def test_giving_back_announces_that_waking_may_help() -> None:
    memory = ReceiveMemory(100)
    announced: list[int] = []
    memory.call_when_wakeable(lambda: announced.append(memory.reserved_bytes))
    assert memory.try_reserve(100)
    memory.release(10)
    assert announced == [], "nobody waits"
    waiter = Waiter(memory, 50).wait()
    memory.release(90)
    assert announced == [0]
    assert not waiter.has_memory, "it is woken later, not inside the one who gives back"


def test_whoever_stops_waiting_lets_those_behind_go_on() -> None:
    memory = ReceiveMemory(100)
    announced: list[str] = []
    memory.call_when_wakeable(lambda: announced.append("wake"))
    assert memory.try_reserve(60)
    large, small = Waiter(memory, 100).wait(), Waiter(memory, 40).wait()
    memory.stop_waiting(large.on_memory)
    memory.stop_waiting(large.on_memory)
    assert announced == ["wake"]
    memory.wake()
    assert (large.has_memory, small.has_memory) == (False, True)
    assert not memory.is_contended


def test_what_was_read_is_kept_up_to_the_limit() -> None:
    memory = ReceiveMemory(100)
    memory.keep(100)
    with pytest.raises(ReceiveMemoryExhaustedError, match="1 bytes on top of 100 exceed 100"):
        memory.keep(1)
    memory.drop(50)
    memory.keep(50)
    assert memory.kept_bytes == 100


def test_memory_is_contended_before_nothing_more_can_be_kept() -> None:
    memory = ReceiveMemory(100)
    memory.keep(50)
    assert not memory.is_contended
    memory.keep(1)
    assert memory.is_contended


def test_giving_back_more_than_was_taken_is_a_bug() -> None:
    memory = ReceiveMemory(100)
    with pytest.raises(AssertionError, match="than reserved"):
        memory.release(1)
    with pytest.raises(AssertionError, match="than kept"):
        memory.drop(1)
