"""The buffers into which all connections of one loop receive (decision).

`receive_memory` limits how much they may hold.

Small frames are read into arenas: each connection reads behind the bytes of the previous one. Once
no request in them waits, `recycle` empties all arenas. Thus many connections share one hot buffer,
and an idle connection holds none. A large frame gets its own buffer, which returns to the pool
after its handler.

Invariant: bytes handed out as a frame are not overwritten before `recycle`. This depends on
asyncio's contract: between a connection's `get_buffer`, its read and its `buffer_updated`, no other
connection reads.
"""

from __future__ import annotations

import mmap
from typing import Final

from kafkawire.units import KIB, MIB

ARENA_BYTES: Final = 256 * KIB
# An arena with less room than this is full: each short read would cost a call.
ARENA_MIN_READ_BYTES: Final = 64 * KIB
MAX_ARENAS: Final = 16
# When all arenas are full, reads of this size keep every connection going, slowly.
OVERFLOW_READ_BYTES: Final = 4 * KIB
# Limits of the large buffers kept for reuse; their sizes are powers of two.
MAX_POOLED_BUFFER_BYTES: Final = 4 * MIB
MAX_POOLED_BYTES: Final = 16 * MIB


class Arena:
    """A buffer filled from its start; the bytes below `position` belong to waiting frames."""

    __slots__ = ("position", "size_bytes", "view")

    def __init__(self, size_bytes: int) -> None:
        self.view = memoryview(bytearray(size_bytes))
        self.size_bytes = size_bytes
        self.position = 0

    @property
    def free_bytes(self) -> int:
        """Bytes after `position`."""
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
        """Number of arenas, `MAX_ARENAS` at most."""
        return 1 + len(self._full) + len(self._spare)

    def arena(self, prefix_bytes: int) -> Arena:
        """Return an arena with room for `prefix_bytes` followed by a read."""
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
        """Empty all arenas; no frame in them may be used after this."""
        self._arena.position = 0
        if self._full:
            for arena in self._full:
                arena.position = 0
            self._spare += self._full
            self._full.clear()

    def take_buffer(self, size_bytes: int) -> memoryview:
        """Return a buffer of at least `size_bytes`; give it back with `return_buffer`.

        The system allocates its pages on the first write: a client that only announces a large
        frame costs address space, not memory.
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
        """Take back a buffer that is not in use any more."""
        size_bytes = len(buffer)
        if size_bytes > MAX_POOLED_BUFFER_BYTES:
            return
        if self.pooled_bytes + size_bytes <= MAX_POOLED_BYTES:
            self.pooled_bytes += size_bytes
            self._buffers.setdefault(size_bytes, []).append(buffer)
