"""Splits the bytes of a connection into frames. Decision: no I/O.

Small frames are received into one scratch buffer and copied out. A frame that does not fit there
gets a buffer of its own, and its remaining bytes are received directly into it, so that a large
fetch response is not copied. Bytes on the wire: int32 size, then `size` bytes of frame.
Invariant: memory is at most the scratch buffer plus one frame of `max_frame_bytes`.
"""

from collections.abc import Callable
from typing import Final

from kafkawire.errors import DecodeError

SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 64 * 1024


class FrameReceiver:
    """Passes every complete frame, without its size, to `on_frame`, which may keep it."""

    def __init__(self, max_frame_bytes: int, on_frame: Callable[[memoryview], None]) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._on_frame = on_frame
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._filled = 0
        self._large: memoryview | None = None
        self._large_filled = 0

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes; it is never empty."""
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._scratch[self._filled :]

    def on_received(self, byte_count: int) -> None:
        """Process `byte_count` bytes that were written to `buffer()`.

        Raises:
            DecodeError: the size of a frame is invalid; close the connection.
        """
        if self._large is None:
            self._filled += byte_count
            self._split_scratch()
            return
        self._large_filled += byte_count
        if self._large_filled == len(self._large):
            frame, self._large = self._large, None
            self._on_frame(frame)

    def _split_scratch(self) -> None:
        start = 0
        while self._filled - start >= SIZE_BYTES:
            size = self._frame_size(start)
            end = start + SIZE_BYTES + size
            if end > self._filled:
                if end - start > SCRATCH_BYTES:
                    self._begin_large(start + SIZE_BYTES, size)
                    return
                break
            # The scratch buffer is reused, so the frame is a copy.
            self._on_frame(memoryview(bytes(self._scratch[start + SIZE_BYTES : end])))
            start = end
        self._keep_from(start)

    def _frame_size(self, start: int) -> int:
        size = int.from_bytes(self._scratch[start : start + SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self._max_frame_bytes:
            raise DecodeError(f"frame of {size} bytes, the limit is {self._max_frame_bytes}")
        return size

    def _begin_large(self, start: int, size: int) -> None:
        received = self._filled - start
        self._large = memoryview(bytearray(size))
        self._large[:received] = self._scratch[start : self._filled]
        self._large_filled = received
        self._filled = 0

    def _keep_from(self, start: int) -> None:
        rest = self._filled - start
        if start and rest:
            self._scratch[:rest] = self._scratch[start : self._filled]
        self._filled = rest
