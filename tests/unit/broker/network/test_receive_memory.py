"""Large frames reserve memory as they arrive; kept input has a budget."""

from __future__ import annotations

import pytest

from broker.network.receive_memory import (
    SMALL_FRAME_BYTES,
    ReceiveMemory,
    ReceiveMemoryExhaustedError,
    Reservation,
)

LARGE = 2 * SMALL_FRAME_BYTES
LIMIT = 100


def frame(memory: ReceiveMemory, frame_bytes: int = LARGE, *, urgent: bool = False) -> Reservation:
    return memory.reservation(frame_bytes, is_control_plane=urgent)


class Waiter:
    """A waiter that takes its memory when it is woken."""

    def __init__(self, memory: ReceiveMemory, reservation: Reservation, size_bytes: int) -> None:
        self.memory = memory
        self.reservation = reservation
        self.size_bytes = size_bytes
        self.has_memory = False
        memory.wait(self.on_memory, reservation, size_bytes)

    def on_memory(self) -> None:
        self.has_memory = self.memory.try_grow(self.reservation, self.size_bytes)


def test_a_reservation_is_charged_for_its_current_size() -> None:
    memory = ReceiveMemory(LIMIT)
    reservation = frame(memory)
    assert memory.reserved_bytes == 0
    assert memory.try_grow(reservation, 10)
    assert memory.try_grow(reservation, 30)
    assert memory.reserved_bytes == 30
    memory.release(reservation)
    assert memory.reserved_bytes == 0


def test_small_frames_and_the_control_plane_have_shares_of_their_own() -> None:
    memory = ReceiveMemory(LIMIT)
    assert memory.try_grow(frame(memory), 50)
    assert not memory.try_grow(frame(memory), 1)
    assert memory.try_grow(frame(memory, SMALL_FRAME_BYTES), 25)
    assert not memory.try_grow(frame(memory, SMALL_FRAME_BYTES), 1)
    assert memory.try_grow(frame(memory, urgent=True), 25)
    assert not memory.try_grow(frame(memory, urgent=True), 1)


def test_the_oldest_frame_may_always_grow() -> None:
    memory = ReceiveMemory(LIMIT)
    oldest, other = frame(memory), frame(memory)
    assert memory.try_grow(oldest, 25)
    assert memory.try_grow(other, 25)
    assert not memory.try_grow(other, 26)
    assert memory.try_grow(oldest, 10 * LIMIT)
    memory.release(oldest)
    assert memory.try_grow(other, 10 * LIMIT)


def test_small_frames_are_woken_first() -> None:
    memory = ReceiveMemory(LIMIT)
    oldest = frame(memory)
    assert memory.try_grow(oldest, 40)
    assert memory.try_grow(frame(memory, urgent=True), 50)
    large = Waiter(memory, frame(memory), 50)
    small = Waiter(memory, frame(memory, SMALL_FRAME_BYTES), 25)
    memory.wake()
    assert (large.has_memory, small.has_memory) == (False, False)
    memory.release(oldest)
    memory.wake()
    assert (large.has_memory, small.has_memory) == (False, True)
    assert memory.is_contended


def test_a_release_calls_back_while_frames_wait() -> None:
    memory = ReceiveMemory(LIMIT)
    announced: list[int] = []
    memory.call_when_wakeable(lambda: announced.append(memory.reserved_bytes))
    first, second = frame(memory), frame(memory)
    assert memory.try_grow(first, 20)
    assert memory.try_grow(second, 20)
    memory.release(first)
    assert announced == [], "there is no waiter"
    waiter = Waiter(memory, frame(memory), 50)
    memory.release(second)
    assert announced == [0]
    assert not waiter.has_memory, "it is woken later, not inside the one who gives back"


def test_a_waiter_that_stops_is_not_woken() -> None:
    memory = ReceiveMemory(LIMIT)
    waiter = Waiter(memory, frame(memory), 50)
    assert memory.is_contended
    memory.stop_waiting(waiter.on_memory)
    memory.stop_waiting(waiter.on_memory)
    memory.wake()
    assert not waiter.has_memory
    assert not memory.is_contended


def test_a_waiter_that_stops_while_others_are_woken_is_not_woken() -> None:
    memory = ReceiveMemory(LIMIT)
    late = Waiter(memory, frame(memory), 10)
    memory.wait(lambda: memory.stop_waiting(late.on_memory), frame(memory, SMALL_FRAME_BYTES), 10)
    memory.wake()
    assert not late.has_memory


def test_input_is_kept_up_to_the_limit() -> None:
    memory = ReceiveMemory(100)
    memory.keep(100)
    with pytest.raises(ReceiveMemoryExhaustedError, match="1 bytes in addition to 100 exceed 100"):
        memory.keep(1)
    memory.drop(50)
    memory.keep(50)
    assert memory.kept_bytes == 100


def test_memory_is_contended_before_the_limit_of_kept_input() -> None:
    memory = ReceiveMemory(100)
    memory.keep(50)
    assert not memory.is_contended
    memory.keep(1)
    assert memory.is_contended


def test_giving_back_more_than_was_taken_is_a_bug() -> None:
    memory = ReceiveMemory(100)
    reservation = frame(memory)
    assert memory.try_grow(reservation, 1)
    memory.release(reservation)
    with pytest.raises(KeyError):
        memory.release(reservation)
    with pytest.raises(AssertionError, match="than kept"):
        memory.drop(1)
