"""Split the responses on a connection into frames, and receive large ones in place (decision).

Small frames are received into one scratch buffer and copied out. A frame that does not fit there
gets a buffer of its own, and its remaining bytes are received directly into it, so that a large
fetch response is not copied. If the owner gives that buffer back, it receives the next frames.
On the wire a frame is its size (int32), then that number of bytes.
Invariants: memory is at most the scratch buffer, a frame of `max_frame_bytes`, and the kept buffer;
a large frame takes memory for the bytes that have arrived, not for its announced size.
"""

import mmap
from collections.abc import Iterator
from typing import Final

from kafkawire.errors import DecodeError
from kafkawire.native import split_frames
from kafkawire.units import KIB

SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 64 * KIB
MAX_KEPT_BYTES: Final = 1024 * KIB
"""Largest buffer that is kept after a small frame.

A larger one is kept after a large frame, as more of them are to be expected.
"""


class ResponseReceiver:
    """The input of one connection."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        # The scratch buffer, the kept buffer, or the room of exactly one large frame.
        self._buffer = self._scratch
        self._filled = 0
        self._is_large = False
        self._kept: memoryview | None = None

    def free(self) -> memoryview:
        """Return the buffer for the next bytes; it is never empty."""
        return self._buffer[self._filled :]

    def receive(self, byte_count: int) -> Iterator[memoryview]:
        """Yield the frames, without sizes, that `byte_count` bytes in `free()` have completed.

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

    def reuse(self, frame: memoryview) -> None:
        """Take back the memory of a large frame for the next frame.

        `frame` is invalid from now on, and no other frame may be on its way. A frame that is never
        passed here stays valid.
        """
        if SIZE_BYTES + len(frame) > SCRATCH_BYTES:
            self._kept = memoryview(frame.obj)
        elif self._kept is not None and len(self._kept) > MAX_KEPT_BYTES:
            self._kept = None
        # An unsolicited large frame has a buffer of its own, even before its first byte.
        is_idle = self._buffer is self._scratch and not self._filled
        if self._kept is not None and is_idle:
            self._buffer = self._kept

    def _split(self) -> Iterator[memoryview]:
        buffer, self._buffer = self._buffer, self._scratch
        frames, start = split_frames(buffer, 0, self._filled, self._filled, self._max_frame_bytes)
        for frame in frames:
            # The scratch buffer is reused at once, so that a frame in it is copied.
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
            # With room for the size, so that the buffer can receive an equal frame later.
            self._buffer = _room_for(SIZE_BYTES + size)[SIZE_BYTES:]
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


def _room_for(size_bytes: int) -> memoryview:
    if size_bytes <= MAX_KEPT_BYTES:
        return memoryview(bytearray(size_bytes))
    # The system allocates the pages on the first write. A server of another protocol, whose first
    # bytes seem to announce a gigabyte, thus costs neither time nor memory.
    return memoryview(mmap.mmap(-1, size_bytes))
