"""Split the responses on a connection into frames, and receive large ones in place (decision).

Small frames are received into one scratch buffer and copied out. A frame that does not fit there
gets room of its own, and its remaining bytes are received directly into it, so that a large fetch
response is not copied. Room that nobody refers to any more receives later frames, because the pages
of new memory cost more time than the bytes that arrive in them.
On the wire a frame is its size (int32), then that number of bytes.
Invariants: memory is at most the scratch buffer, a frame of `max_frame_bytes`, and the kept rooms;
a large frame takes memory for the bytes that have arrived, not for its announced size.
"""

import mmap
import sys
from collections.abc import Iterator
from typing import Final, TypeAlias

from kafkawire.errors import DecodeError
from kafkawire.native import split_frames
from kafkawire.units import KIB

SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 64 * KIB
MAX_ROOMS: Final = 3
"""Rooms that are kept: one of them receives while the records in the others are read."""
MAX_KEPT_BYTES: Final = 1024 * KIB
"""Largest room that is kept after a small frame.

A larger one is kept after a large frame, as more of them are to be expected.
"""

Room: TypeAlias = bytearray | mmap.mmap


def _reference_counts(rooms: list[Room]) -> list[int]:
    return [sys.getrefcount(room) for room in rooms]


UNUSED_COUNT: Final = _reference_counts([bytearray()])[0]
"""References to a room that only its list and the counting itself refer to."""


class ResponseReceiver:
    """The input of one connection."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        # The scratch buffer, a room, or the part of a room for exactly one large frame.
        self._buffer = self._scratch
        self._filled = 0
        self._is_large = False
        self._rooms: list[Room] = []

    def free(self) -> memoryview:
        """Return the buffer for the next bytes; it is never empty."""
        if self._rooms and not self._filled and self._buffer is self._scratch:
            self._buffer = self._unused_room(SCRATCH_BYTES) or self._scratch
        return self._buffer[self._filled :]

    def receive(self, byte_count: int) -> Iterator[memoryview]:
        """Yield the frames, without sizes, that `byte_count` bytes in `free()` have completed.

        A frame stays valid as long as anybody refers to it.

        Raises:
            DecodeError: the size of a frame is invalid; close the connection.
        """
        self._filled += byte_count
        if not self._is_large:
            yield from self._split()
        elif self._filled == len(self._buffer):
            frame, self._buffer = self._buffer, self._scratch
            self._filled, self._is_large = 0, False
            yield frame

    def _split(self) -> Iterator[memoryview]:
        buffer, self._buffer = self._buffer, self._scratch
        frames, start = split_frames(buffer, 0, self._filled, self._filled, self._max_frame_bytes)
        for frame in frames:
            if SIZE_BYTES + len(frame) <= SCRATCH_BYTES:
                self._rooms = [room for room in self._rooms if len(room) <= MAX_KEPT_BYTES]
            # The scratch buffer is used again at once, so that a frame in it is copied.
            yield memoryview(bytes(frame)) if buffer is self._scratch else frame
        rest = buffer[start : self._filled]
        self._filled = len(rest)
        size = self._frame_size(rest)
        if SIZE_BYTES + size > SCRATCH_BYTES:
            rest = rest[SIZE_BYTES:]
            self._filled, self._is_large = len(rest), True
            start += SIZE_BYTES
            if start + size <= len(buffer):
                self._buffer = buffer[start : start + size]
                return
            # With room for the size, so that it can receive an equal frame later.
            room = self._unused_room(SIZE_BYTES + size) or self._new_room(SIZE_BYTES + size)
            self._buffer = room[SIZE_BYTES : SIZE_BYTES + size]
        if start or self._buffer is not buffer:
            self._buffer[: len(rest)] = rest

    def _frame_size(self, frame: memoryview) -> int:
        """Return the size of an incomplete frame; 0 until it has arrived."""
        if len(frame) < SIZE_BYTES:
            return 0
        size = int.from_bytes(frame[:SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self._max_frame_bytes:
            raise DecodeError(f"frame of {size} bytes, the limit is {self._max_frame_bytes}")
        return size

    def _unused_room(self, size_bytes: int) -> memoryview | None:
        """Return a kept room of at least this size in which no frame is referred to any more."""
        # Each view of a room, and each part of a view, holds a reference to the room.
        for room, count in zip(self._rooms, _reference_counts(self._rooms), strict=True):
            if count == UNUSED_COUNT and len(room) >= size_bytes:
                return memoryview(room)
        return None

    def _new_room(self, size_bytes: int) -> memoryview:
        # The system allocates the pages of a map on the first write. A server of another protocol,
        # whose first bytes seem to announce a gigabyte, thus costs neither time nor memory.
        is_small = size_bytes <= MAX_KEPT_BYTES
        room = bytearray(size_bytes) if is_small else mmap.mmap(-1, size_bytes)
        self._rooms = [*self._rooms[-MAX_ROOMS + 1 :], room]
        return memoryview(room)
