"""Receive buffer for the one pending response from another broker (decision).

Bytes are received in place. Only the first part of a response larger than the buffer is copied, as
its size is not known before. Invariant: a returned frame does not change until `reset`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kafkawire.errors import DecodeError
from kafkawire.units import KIB

SIZE: Final = Struct(">i")
INITIAL_BYTES: Final = 64 * KIB
# Size that stays allocated after a small response. A larger buffer is kept after a large one, as
# more of them are to be expected.
MAX_KEPT_BYTES: Final = 1024 * KIB


class PeerBuffer:
    """Room for one frame, including its size."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._view = memoryview(bytearray(INITIAL_BYTES))
        self._filled_bytes = 0
        # Frame and size together; None until the size has arrived.
        self._whole_bytes: int | None = None

    @property
    def free(self) -> memoryview:
        """Room for the next bytes; never empty."""
        return self._view[self._filled_bytes :]

    def on_received(self, byte_count: int) -> memoryview | None:
        """Handle bytes that were read into `free`; return the frame without its size once complete.

        Raises:
            DecodeError: the size is invalid, or bytes follow the frame; close the connection.
        """
        self._filled_bytes += byte_count
        if self._whole_bytes is None:
            if self._filled_bytes < SIZE.size:
                return None
            (size_bytes,) = SIZE.unpack_from(self._view)
            if not 0 <= size_bytes <= self._max_frame_bytes:
                raise DecodeError(
                    f"frame size must be within 0..{self._max_frame_bytes}, got {size_bytes}"
                )
            self._whole_bytes = SIZE.size + size_bytes
            self._make_room(self._whole_bytes)
        if self._filled_bytes < self._whole_bytes:
            return None
        if self._filled_bytes > self._whole_bytes:
            extra_bytes = self._filled_bytes - self._whole_bytes
            raise DecodeError(f"{extra_bytes} bytes follow the response")
        return self._view[SIZE.size : self._whole_bytes]

    def reset(self) -> None:
        """Make room for the next response; a returned frame is no longer valid."""
        was_small = self._filled_bytes <= MAX_KEPT_BYTES
        self._filled_bytes, self._whole_bytes = 0, None
        if was_small and len(self._view) > MAX_KEPT_BYTES:
            self._view = memoryview(bytearray(INITIAL_BYTES))

    def _make_room(self, size_bytes: int) -> None:
        # One byte more, so that `free` is not empty when the frame is complete.
        if size_bytes < len(self._view):
            return
        larger = memoryview(bytearray(size_bytes + 1))
        larger[: self._filled_bytes] = self._view[: self._filled_bytes]
        self._view = larger
