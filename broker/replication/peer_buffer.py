"""Where the one answer that is awaited from another broker arrives (decision).

The bytes are received in place and never copied but for a first part: that of an answer larger
than the buffer, whose size is known only when it has begun. Invariant: what was returned stays as
it is until `reset`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kafkawire.errors import DecodeError

SIZE: Final = Struct(">i")
KIB: Final = 1024
INITIAL_BYTES: Final = 64 * KIB
# What stays allocated after small answers; after large ones more of them are to be expected.
MAX_KEPT_BYTES: Final = 1024 * KIB


class PeerBuffer:
    """Room for one frame, its size included."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._view = memoryview(bytearray(INITIAL_BYTES))
        self._filled_bytes = 0
        # Of the frame and its size; unknown before the size has arrived.
        self._whole_bytes: int | None = None

    @property
    def free(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._view[self._filled_bytes :]

    def on_received(self, byte_count: int) -> memoryview | None:
        """Take what was read to `free`; return the frame, without its size, when it is whole.

        Raises:
            DecodeError: the size is none, or more than one frame has come: close the connection.
        """
        self._filled_bytes += byte_count
        if self._whole_bytes is None:
            if self._filled_bytes < SIZE.size:
                return None
            (size_bytes,) = SIZE.unpack_from(self._view)
            if not 0 <= size_bytes <= self._max_frame_bytes:
                raise DecodeError(
                    f"a frame has 0..{self._max_frame_bytes} bytes, announced are {size_bytes}"
                )
            self._whole_bytes = SIZE.size + size_bytes
            self._make_room(self._whole_bytes)
        if self._filled_bytes < self._whole_bytes:
            return None
        if self._filled_bytes > self._whole_bytes:
            raise DecodeError("there are bytes behind the answer")
        return self._view[SIZE.size : self._whole_bytes]

    def reset(self) -> None:
        """Make room for the next answer; what was returned is not valid any more."""
        was_small = self._filled_bytes <= MAX_KEPT_BYTES
        self._filled_bytes, self._whole_bytes = 0, None
        if was_small and len(self._view) > MAX_KEPT_BYTES:
            self._view = memoryview(bytearray(INITIAL_BYTES))

    def _make_room(self, size_bytes: int) -> None:
        # One byte more, so that `free` is not empty when the frame is whole.
        if size_bytes < len(self._view):
            return
        larger = memoryview(bytearray(size_bytes + 1))
        larger[: self._filled_bytes] = self._view[: self._filled_bytes]
        self._view = larger
