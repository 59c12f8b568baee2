"""From bytes as they arrive to whole frames, for one connection (decision).

A frame is a size (int32) and as many bytes. Frames are parsed where they were read. What is left
over when a read ends inside a frame is kept: copied out of the arena if the frame is small,
assembled in a buffer of its own if it is large. Invariant: `next_frame` returns every frame once,
whole, in order, wherever the reads were cut.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from broker.buffer_pool import Arena, BufferPool
from broker.network_limits import KIB
from broker.receive_memory import ReceiveMemory
from kafkawire.errors import DecodeError

SIZE: Final = Struct(">i")
SIZE_BYTES: Final = SIZE.size
# A larger frame that has not arrived whole is assembled in a buffer of its own; below it, moving
# the part that is there costs less than reading up to the end of each frame separately.
LARGE_FRAME_BYTES: Final = 64 * KIB

_EMPTY: Final = memoryview(b"")
_peek_size = SIZE.unpack_from


class FrameReceiver:
    """The input of one connection."""

    __slots__ = (
        "_arena",
        "_assembled_bytes",
        "_assembly",
        "_assembly_bytes",
        "_end",
        "_kept_bytes",
        "_max_frame_bytes",
        "_memory",
        "_offered",
        "_pool",
        "_start",
        "_view",
        "release_frame",
        "wanted_bytes",
    )

    def __init__(self, pool: BufferPool, memory: ReceiveMemory, max_frame_bytes: int) -> None:
        self._pool = pool
        self._memory = memory
        self._max_frame_bytes = max_frame_bytes
        # Input that is not parsed: view[start:end], in an arena or in a copy of our own.
        self._view = _EMPTY
        self._start = 0
        self._end = 0
        self._arena: Arena | None = None
        self._offered: Arena | None = None
        self._kept_bytes = 0
        # A large frame with its size, of which the first bytes are there.
        self._assembly: memoryview | None = None
        self._assembly_bytes = 0
        self._assembled_bytes = 0
        # Memory that the next frame needs before anything else can be read; 0 if none.
        self.wanted_bytes = 0
        # Gives back the buffer of the frame that `next_frame` returned last, if it has one.
        self.release_frame: Callable[[], None] | None = None

    @property
    def is_assembling(self) -> bool:
        """Whether memory is reserved for a frame of which the end has not arrived."""
        return self._assembly is not None

    def get_buffer(self) -> memoryview:
        """Return where to read to; never empty. Nothing changes until `on_received`."""
        if self._assembly is not None:
            return self._assembly[self._assembled_bytes : self._assembly_bytes]
        rest_bytes = self._end - self._start
        arena = self._offered = self._pool.arena(rest_bytes)
        begin = arena.position
        if rest_bytes:
            arena.view[begin : begin + rest_bytes] = self._view[self._start : self._end]
        return arena.view[begin + rest_bytes :]

    def on_received(self, byte_count: int) -> None:
        """Note that `byte_count` bytes were read to the last result of `get_buffer`."""
        if self._assembly is not None:
            self._assembled_bytes += byte_count
            return
        arena = self._arena = self._offered
        assert arena is not None, "get_buffer comes first"
        begin = arena.position
        self._end = begin + self._end - self._start + byte_count
        self._start = begin
        self._view = arena.view
        if self._kept_bytes:
            self._forget_kept()

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame, without its size, or None. It is valid until recycled.

        Raises:
            DecodeError: a size below zero or above the limit.
        """
        self.release_frame = None
        start = self._start
        if self._end - start < SIZE_BYTES:
            return None if self._assembly is None else self._take_assembly()
        (size_bytes,) = _peek_size(self._view, start)
        if not 0 <= size_bytes <= self._max_frame_bytes:
            raise DecodeError(f"frame of {size_bytes} bytes; at most {self._max_frame_bytes}")
        frame_end = start + SIZE_BYTES + size_bytes
        if frame_end > self._end:
            return None
        self._start = frame_end
        return self._view[start + SIZE_BYTES : frame_end]

    def settle(self) -> None:
        """Keep what is not parsed, so that others may use the arena. Ends every round of reading.

        Sets `wanted_bytes` when the rest is the head of a large frame for which there is no
        memory: nothing must be read until a later `settle` has found some.

        Raises:
            ReceiveMemoryExhaustedError: there is no memory for what was read.
        """
        is_in_arena = self._leave_arena()
        self.wanted_bytes = 0
        rest_bytes = self._end - self._start
        if not rest_bytes:
            if not is_in_arena:
                self._drop_rest()
        elif not self._try_assemble(rest_bytes) and is_in_arena:
            self._keep(rest_bytes)

    def close(self) -> None:
        """Forget everything, and give back all memory; frames handed out stay valid."""
        self._leave_arena()
        self._drop_rest()
        if self._assembly is not None:
            assembly, self._assembly = self._assembly, None
            self._give_back(assembly, self._assembly_bytes)

    def _leave_arena(self) -> bool:
        """Let the next reader start behind the frames handed out; whether the rest is there."""
        arena, self._arena = self._arena, None
        if arena is None:
            return False
        arena.position = self._start
        return True

    def _keep(self, rest_bytes: int) -> None:
        self._memory.keep(rest_bytes)
        self._kept_bytes = rest_bytes
        self._view = memoryview(bytearray(self._view[self._start : self._end]))
        self._start, self._end = 0, rest_bytes

    def _drop_rest(self) -> None:
        self._view, self._start, self._end = _EMPTY, 0, 0
        if self._kept_bytes:
            self._forget_kept()

    def _forget_kept(self) -> None:
        self._memory.drop(self._kept_bytes)
        self._kept_bytes = 0

    def _try_assemble(self, rest_bytes: int) -> bool:
        """Move the head of a large frame to a buffer of its own, if it is one and there is one."""
        if rest_bytes < SIZE_BYTES:
            return False
        whole_bytes = SIZE_BYTES + _peek_size(self._view, self._start)[0]
        if whole_bytes <= max(rest_bytes, LARGE_FRAME_BYTES) or not self._is_legal(whole_bytes):
            return False
        if not self._memory.try_reserve(whole_bytes):
            self.wanted_bytes = whole_bytes
            return False
        buffer = self._pool.take_buffer(whole_bytes)
        buffer[:rest_bytes] = self._view[self._start : self._end]
        self._assembly = buffer
        self._assembly_bytes, self._assembled_bytes = whole_bytes, rest_bytes
        self._drop_rest()
        return True

    def _is_legal(self, whole_bytes: int) -> bool:
        return SIZE_BYTES <= whole_bytes <= SIZE_BYTES + self._max_frame_bytes

    def _take_assembly(self) -> memoryview | None:
        assembly, whole_bytes = self._assembly, self._assembly_bytes
        assert assembly is not None
        if self._assembled_bytes < whole_bytes:
            return None
        self._assembly = None
        self.release_frame = lambda: self._give_back(assembly, whole_bytes)
        return assembly[SIZE_BYTES:whole_bytes]

    def _give_back(self, buffer: memoryview, reserved_bytes: int) -> None:
        self._pool.return_buffer(buffer)
        self._memory.release(reserved_bytes)
