"""Decision: cuts a stream of bytes into frames.

A frame on the wire is its size in four bytes, signed, and that many bytes. The splitter serves
the client side; the broker's connection cuts frames out of its own receive buffer.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kafkawire.errors import DecodeError
from kafkawire.primitives import Buffer

SIZE_BYTES: Final = 4

_SIZE: Final = Struct(">i")


class FrameSplitter:
    """Collects what arrives on one connection and gives out whole frames, in order.

    Holds at most one frame and what has arrived behind it. After a DecodeError the stream cannot be
    followed any further.
    """

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._pending = bytearray()

    @property
    def pending_bytes(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._pending)

    def feed(self, data: Buffer) -> Iterator[memoryview]:
        """Take `data` in; return the frames that are whole now, without their sizes.

        All of `data` is taken in, and its frames are checked, before this returns. The frames
        are views of memory of their own, which nobody will reuse.

        Raises:
            DecodeError: a frame's size is negative or above the limit; close the connection.
        """
        self._pending += data
        stops = self._stops()
        if not stops:
            return iter(())
        # Copied once per batch of frames, so that what was given out stays as it is.
        whole = memoryview(bytes(memoryview(self._pending)[: stops[-1]]))
        del self._pending[: stops[-1]]
        starts = [0, *stops[:-1]]
        return (whole[start + SIZE_BYTES : stop] for start, stop in zip(starts, stops, strict=True))

    def _stops(self) -> list[int]:
        """Return where each whole frame ends; look at the size of the one after them, too."""
        stops: list[int] = []
        start = 0
        while len(self._pending) - start >= SIZE_BYTES:
            (size_bytes,) = _SIZE.unpack_from(self._pending, start)
            if not 0 <= size_bytes <= self._max_frame_bytes:
                raise DecodeError(
                    f"a frame has 0..{self._max_frame_bytes} bytes, announced are {size_bytes}"
                )
            start += SIZE_BYTES + size_bytes
            if start > len(self._pending):
                break
            stops.append(start)
        return stops
