"""Arenas are shared and bounded; large buffers return to the pool."""

from __future__ import annotations

import pytest

from broker.network.buffer_pool import (
    ARENA_BYTES,
    ARENA_MIN_READ_BYTES,
    MAX_ARENAS,
    MAX_POOLED_BUFFER_BYTES,
    MAX_POOLED_BYTES,
    OVERFLOW_READ_BYTES,
    BufferPool,
)


def test_connections_share_one_arena() -> None:
    pool = BufferPool()
    arena = pool.arena(0)
    arena.position = 100
    assert pool.arena(0) is arena
    assert pool.arena(0).position == 100


def test_an_arena_with_little_room_is_followed_by_another() -> None:
    pool = BufferPool()
    first = pool.arena(0)
    first.position = ARENA_BYTES - ARENA_MIN_READ_BYTES + 1
    second = pool.arena(0)
    assert second is not first
    assert second.free_bytes == ARENA_BYTES


def test_recycling_empties_all_arenas_and_uses_them_again() -> None:
    pool = BufferPool()
    for _ in range(3):
        pool.arena(0).position = ARENA_BYTES
    pool.arena(0)
    assert pool.arena_count == 4
    pool.recycle()
    for _ in range(4):
        arena = pool.arena(0)
        assert arena.free_bytes == ARENA_BYTES
        arena.position = ARENA_BYTES
    assert pool.arena_count == 4


def test_reads_continue_in_small_buffers_when_all_arenas_are_full() -> None:
    pool = BufferPool()
    for _ in range(MAX_ARENAS):
        pool.arena(0).position = ARENA_BYTES
    overflow = pool.arena(7)
    assert overflow.free_bytes == 7 + OVERFLOW_READ_BYTES
    assert pool.arena(7) is not overflow
    assert pool.arena_count == MAX_ARENAS


def test_a_prefix_larger_than_an_arena_gets_a_buffer_of_its_own() -> None:
    pool = BufferPool()
    assert pool.arena(ARENA_BYTES).free_bytes == ARENA_BYTES + OVERFLOW_READ_BYTES
    assert pool.arena_count == 1


@pytest.mark.parametrize("size_bytes", [1, 100_000, MAX_POOLED_BUFFER_BYTES])
def test_a_large_buffer_is_used_again(size_bytes: int) -> None:
    pool = BufferPool()
    buffer = pool.take_buffer(size_bytes)
    assert len(buffer) >= size_bytes
    pool.return_buffer(buffer)
    assert pool.pooled_bytes == len(buffer)
    assert pool.take_buffer(size_bytes) is buffer
    assert pool.pooled_bytes == 0


def test_a_very_large_buffer_is_exact_and_not_pooled() -> None:
    pool = BufferPool()
    buffer = pool.take_buffer(MAX_POOLED_BUFFER_BYTES + 1)
    assert len(buffer) == MAX_POOLED_BUFFER_BYTES + 1
    pool.return_buffer(buffer)
    assert pool.pooled_bytes == 0


def test_the_pool_keeps_a_limited_number_of_bytes() -> None:
    pool = BufferPool()
    count = MAX_POOLED_BYTES // MAX_POOLED_BUFFER_BYTES + 1
    for buffer in [pool.take_buffer(MAX_POOLED_BUFFER_BYTES) for _ in range(count)]:
        pool.return_buffer(buffer)
    assert pool.pooled_bytes == MAX_POOLED_BYTES
