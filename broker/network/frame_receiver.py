"""From bytes as they arrive to whole frames, for one connection (decision).

A frame is a size (int32) and as many bytes. Frames are parsed where they were read. What is left
over when a read ends inside a frame is kept: copied out of the arena if the frame is small,
assembled in a buffer of its own if it is large. Invariants: every frame is returned once, whole,
in order, wherever the reads were cut; a frame is charged for what has arrived of it, twice as much
at most, not for what it announces.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from broker.network.buffer_pool import Arena, BufferPool
from broker.network.limits import CONTROL_PLANE_APIS, KIB, LARGE_REQUEST_APIS, NetworkLimits
from broker.network.receive_memory import (
    ReceiveMemory,
    ReceiveMemoryExhaustedError,
    Reservation,
)
from kafkawire.apis import ApiKey
from kafkawire.frames_scanner import split_frames

SIZE: Final = Struct(">i")
SIZE_BYTES: Final = SIZE.size
# The size, and the API key that the request header begins with.
SIZE_AND_KEY: Final = Struct(">ih")
SIZE_AND_KEY_BYTES: Final = SIZE_AND_KEY.size
# A larger frame that has not arrived whole is assembled in a buffer of its own; below it, moving
# the part that is there costs less than reading up to the end of each frame separately.
LARGE_FRAME_BYTES: Final = 64 * KIB

# The first grant of a large frame, unless more of it has arrived. Later grants double it.
FIRST_GRANT_BYTES: Final = 64 * KIB

_EMPTY: Final = memoryview(b"")
_peek_size = SIZE.unpack_from
_peek_size_and_key = SIZE_AND_KEY.unpack_from


class Assembly:
    """A large frame, its size included, of which the first bytes are there."""

    __slots__ = ("buffer", "filled_bytes", "reservation", "whole_bytes")

    def __init__(self, buffer: memoryview, head: memoryview, reservation: Reservation) -> None:
        self.buffer = buffer
        self.reservation = reservation
        self.whole_bytes = reservation.frame_bytes
        self.filled_bytes = len(head)
        buffer[: self.filled_bytes] = head

    @property
    def free(self) -> memoryview:
        """Where the next bytes go, as many as memory was granted for."""
        return self.buffer[self.filled_bytes : self.reservation.size_bytes]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.filled_bytes == self.whole_bytes


class FrameReceiver:
    """The input of one connection."""

    __slots__ = (
        "_arena",
        "_assembly",
        "_end",
        "_is_control_plane",
        "_kept_bytes",
        "_max_client_bytes",
        "_max_frame_bytes",
        "_memory",
        "_offered",
        "_pool",
        "_reservation",
        "_start",
        "_view",
        "failure",
        "release_frame",
        "wanted_bytes",
    )

    def __init__(
        self,
        pool: BufferPool,
        memory: ReceiveMemory,
        limits: NetworkLimits,
        *,
        is_control_plane: bool = False,
    ) -> None:
        self._pool = pool
        self._memory = memory
        self._max_frame_bytes = limits.socket_request_max_bytes
        self._max_client_bytes = limits.client_request_max_bytes
        self._is_control_plane = is_control_plane
        # Input that is not parsed: view[start:end], in an arena or in a copy of our own.
        self._view = _EMPTY
        self._start = 0
        self._end = 0
        self._arena: Arena | None = None
        self._offered: Arena | None = None
        self._kept_bytes = 0
        self._assembly: Assembly | None = None
        # Of the next frame, if that is a large one.
        self._reservation: Reservation | None = None
        # The reservation must grow to this size before anything else is read; 0 if it need not.
        self.wanted_bytes = 0
        # Why nothing that follows can be understood or kept; empty as long as all is well.
        self.failure = ""
        # Gives back the buffer of the one frame that was returned last, if it has its own.
        self.release_frame: Callable[[], None] | None = None

    @property
    def holds_memory(self) -> bool:
        """Whether a part of a frame has arrived, or frames that were not taken."""
        return self._assembly is not None or self._start < self._end

    @property
    def assembled_bytes(self) -> int:
        """How much has arrived of the large frame that is not whole yet; 0 without one."""
        assembly = self._assembly
        return 0 if assembly is None or assembly.is_whole else assembly.filled_bytes

    @property
    def next_api_key(self) -> int | None:
        """The API of the frame that comes next; None as long as its first bytes are missing."""
        assembly = self._assembly
        if assembly is not None:
            return int(_peek_size_and_key(assembly.buffer)[1])
        if self._end - self._start < SIZE_AND_KEY_BYTES:
            return None
        return int(_peek_size_and_key(self._view, self._start)[1])

    def wait_for_memory(self, waiter: Callable[[], None]) -> None:
        """Have `waiter` called when `take` can have the memory that it wants."""
        assert self._reservation is not None, "only a large frame wants memory"
        self._memory.wait(waiter, self._reservation, self.wanted_bytes)

    def get_buffer(self) -> memoryview:
        """Return where to read to; never empty. Nothing changes until `receive`."""
        if self._assembly is not None:
            return self._assembly.free
        rest_bytes = self._end - self._start
        arena = self._offered = self._pool.arena(rest_bytes)
        begin = arena.position
        if rest_bytes:
            arena.view[begin : begin + rest_bytes] = self._view[self._start : self._end]
            begin += rest_bytes
        return arena.view[begin:] if begin else arena.view

    def receive(self, byte_count: int, limit: int) -> list[memoryview]:
        """Take what was read to the last result of `get_buffer`; then as `take`."""
        assembly = self._assembly
        if assembly is not None:
            assembly.filled_bytes += byte_count
        else:
            arena = self._arena = self._offered
            assert arena is not None, "get_buffer comes first"
            begin = arena.position
            self._end = begin + self._end - self._start + byte_count
            self._start = begin
            self._view = arena.view
            if self._kept_bytes:
                self._forget_kept()
        return self.take(limit)

    def take(self, limit: int) -> list[memoryview]:
        """Return the next whole frames, without their sizes, `limit` at most.

        They are valid until the pool is recycled or, if `release_frame` is set, until that is
        called. What is left is kept, so that others may use the arena. Afterwards `failure` tells
        whether the input has become useless, and `wanted_bytes` whether the next frame needs
        memory that is not there: then a later call tries again.
        """
        self.release_frame = None
        if self._assembly is not None:
            return self._take_assembly(self._assembly, limit)
        end = self._end
        frames, start = split_frames(self._view, self._start, end, limit, self._max_frame_bytes)
        self._start = start
        if start == end and self._arena is not None:
            # The common case, without a call: all is parsed, nothing was kept.
            self._arena.position = start
            self._arena = None
        else:
            if len(frames) < limit and end - start >= SIZE_BYTES:
                self._check_size()
            self._settle(end - start)
        return frames

    def close(self) -> None:
        """Forget everything, and give back all memory; frames handed out stay valid."""
        self._drop_rest()
        assembly, self._assembly = self._assembly, None
        self._reservation = None
        if assembly is not None:
            self._give_back(assembly)

    def _check_size(self) -> None:
        """Note a failure if the next frame's size is none that may be."""
        (size_bytes,) = _peek_size(self._view, self._start)
        if not 0 <= size_bytes <= self._max_frame_bytes:
            self.failure = f"frame of {size_bytes} bytes; at most {self._max_frame_bytes}"
        elif size_bytes > self._max_client_bytes and self._end - self._start >= SIZE_AND_KEY_BYTES:
            key = _peek_size_and_key(self._view, self._start)[1]
            if key not in LARGE_REQUEST_APIS:
                self.failure = (
                    f"{_name_of(key)} request of {size_bytes} bytes; "
                    f"at most {self._max_client_bytes}"
                )

    def _settle(self, rest_bytes: int) -> None:
        """Leave the arena to others, behind the frames handed out, and keep the rest."""
        arena, self._arena = self._arena, None
        if arena is not None:
            arena.position = self._start
        self.wanted_bytes = 0
        if not rest_bytes or self.failure:
            self._drop_rest()
        elif not self._try_assemble(rest_bytes) and arena is not None:
            self._keep(rest_bytes)

    def _keep(self, rest_bytes: int) -> None:
        try:
            self._memory.keep(rest_bytes)
        except ReceiveMemoryExhaustedError as error:
            self.failure = str(error)
            self._drop_rest()
            return
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
        if rest_bytes < SIZE_AND_KEY_BYTES:
            return False
        size_bytes, key = _peek_size_and_key(self._view, self._start)
        whole_bytes = SIZE_BYTES + size_bytes
        if whole_bytes <= max(rest_bytes, LARGE_FRAME_BYTES):
            return False
        self._check_size()
        if self.failure:
            self._drop_rest()
            return True
        if self._reservation is None:
            self._reservation = self._memory.reservation(
                whole_bytes,
                is_control_plane=self._is_control_plane or key in CONTROL_PLANE_APIS,
            )
        if not self._is_granted(self._reservation, rest_bytes):
            return False
        buffer = self._pool.take_buffer(whole_bytes)
        head = self._view[self._start : self._end]
        self._assembly = Assembly(buffer, head, self._reservation)
        self._drop_rest()
        return True

    def _is_granted(self, reservation: Reservation, filled_bytes: int) -> bool:
        """Let a frame of which so much has arrived have memory for as much again."""
        wanted_bytes = min(reservation.frame_bytes, max(2 * filled_bytes, FIRST_GRANT_BYTES))
        is_granted = self._memory.try_grow(reservation, wanted_bytes)
        self.wanted_bytes = 0 if is_granted else wanted_bytes
        return is_granted

    def _take_assembly(self, assembly: Assembly, limit: int) -> list[memoryview]:
        if not assembly.is_whole:
            if assembly.filled_bytes == assembly.reservation.size_bytes:
                self._is_granted(assembly.reservation, assembly.filled_bytes)
            return []
        if limit <= 0:
            return []
        self._assembly = self._reservation = None
        self.release_frame = lambda: self._give_back(assembly)
        return [assembly.buffer[SIZE_BYTES : assembly.whole_bytes]]

    def _give_back(self, assembly: Assembly) -> None:
        self._pool.return_buffer(assembly.buffer)
        self._memory.release(assembly.reservation)


def _name_of(key: int) -> str:
    try:
        return ApiKey(key).name
    except ValueError:
        return f"API {key}"
