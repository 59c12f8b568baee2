"""The memory that requests are received in, shared by all connections of one loop (decision).

Small frames land in arenas: a connection reads where the previous one stopped, and when no
request waits any more (`recycle`) all arenas are empty again. So many connections share one hot
buffer, and an idle one holds none. Large frames get a buffer of their own, which goes back when
their handler has returned.

Invariant: bytes that were handed out as a frame are not written again before `recycle`. It rests
on asyncio's contract that `get_buffer`, the read and `buffer_updated` follow each other without
another connection's in between.
"""

from __future__ import annotations

import mmap
from typing import Final

from broker.network.limits import KIB, MIB

ARENA_BYTES: Final = 256 * KIB
# An arena with less room than this is left for the next one: short reads cost a call each.
ARENA_MIN_READ_BYTES: Final = 64 * KIB
MAX_ARENAS: Final = 16
# With all arenas taken, reads of this size keep every connection going, though slowly.
OVERFLOW_READ_BYTES: Final = 4 * KIB
# Large buffers that are kept for the next large frame, by their size rounded up.
MAX_POOLED_BUFFER_BYTES: Final = 4 * MIB
MAX_POOLED_BYTES: Final = 16 * MIB


class Arena:
    """A buffer that is filled from its start; below `position` lie frames that wait."""

    __slots__ = ("position", "size_bytes", "view")

    def __init__(self, size_bytes: int) -> None:
        self.view = memoryview(bytearray(size_bytes))
        self.size_bytes = size_bytes
        self.position = 0

    @property
    def free_bytes(self) -> int:
        """Room after `position`."""
        return self.size_bytes - self.position


class BufferPool:
    """Arenas for small frames and buffers for large ones."""

    def __init__(self) -> None:
        self._arena = Arena(ARENA_BYTES)
        self._full: list[Arena] = []
        self._spare: list[Arena] = []
        self._buffers: dict[int, list[memoryview]] = {}
        self.pooled_bytes = 0

    @property
    def arena_count(self) -> int:
        """Arenas that exist; never more than `MAX_ARENAS`."""
        return 1 + len(self._full) + len(self._spare)

    def arena(self, prefix_bytes: int) -> Arena:
        """Return an arena with room for `prefix_bytes` and a read after them."""
        wanted_bytes = prefix_bytes + ARENA_MIN_READ_BYTES
        arena = self._arena
        if arena.size_bytes - arena.position >= wanted_bytes:
            return arena
        if wanted_bytes > ARENA_BYTES or (not self._spare and self.arena_count >= MAX_ARENAS):
            return Arena(prefix_bytes + OVERFLOW_READ_BYTES)
        self._full.append(self._arena)
        self._arena = self._spare.pop() if self._spare else Arena(ARENA_BYTES)
        return self._arena

    def recycle(self) -> None:
        """Empty all arenas: no frame in them is needed any more."""
        self._arena.position = 0
        if self._full:
            for arena in self._full:
                arena.position = 0
            self._spare += self._full
            self._full.clear()

    def take_buffer(self, size_bytes: int) -> memoryview:
        """Return a buffer of at least `size_bytes`; give it back with `return_buffer`.

        Its pages are the system's until they are written, so that a client who only promises
        a large frame costs address space, not memory.
        """
        rounded_bytes = 1 << (size_bytes - 1).bit_length()
        free = self._buffers.get(rounded_bytes)
        if free:
            self.pooled_bytes -= rounded_bytes
            return free.pop()
        if rounded_bytes <= MAX_POOLED_BUFFER_BYTES:
            return memoryview(mmap.mmap(-1, rounded_bytes))
        return memoryview(mmap.mmap(-1, size_bytes))

    def return_buffer(self, buffer: memoryview) -> None:
        """Take back a buffer that nobody reads any more."""
        size_bytes = len(buffer)
        if size_bytes > MAX_POOLED_BUFFER_BYTES:
            return
        if self.pooled_bytes + size_bytes <= MAX_POOLED_BYTES:
            self.pooled_bytes += size_bytes
            self._buffers.setdefault(size_bytes, []).append(buffer)
