"""Splits the input of one connection into whole frames (decision).

A frame is its size (int32) followed by that number of bytes. Frames are parsed in place. If a read
ends inside a frame, the receiver keeps the partial frame: a small one is copied out of the arena, a
large one is assembled in its own buffer. Invariants: every frame is returned once, whole and in
order, wherever the reads end; a frame is charged for at most twice the bytes that have arrived, not
for its announced size.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from broker.network.buffer_pool import Arena, BufferPool
from broker.network.limits import CONTROL_PLANE_APIS, LARGE_REQUEST_APIS, NetworkLimits
from broker.network.receive_memory import (
    UNAUTHENTICATED_SHARE,
    ReceiveMemory,
    ReceiveMemoryExhaustedError,
    Reservation,
)
from kafkawire.apis import ApiKey
from kafkawire.native import split_frames
from kafkawire.units import KIB

SIZE: Final = Struct(">i")
SIZE_BYTES: Final = SIZE.size
# The size, and the API key at the start of the request header.
SIZE_AND_KEY: Final = Struct(">ih")
SIZE_AND_KEY_BYTES: Final = SIZE_AND_KEY.size
# The first bytes of a client that speaks TLS.
TLS_HANDSHAKE: Final = 0x1603
# A larger frame that has not arrived whole is assembled in its own buffer. For a smaller frame it
# is cheaper to move the received part than to read up to the end of each frame separately.
LARGE_FRAME_BYTES: Final = 64 * KIB

# The first grant of a large frame, unless more bytes have arrived. Later grants double it.
FIRST_GRANT_BYTES: Final = 64 * KIB

_EMPTY: Final = memoryview(b"")
_peek_size = SIZE.unpack_from
_peek_size_and_key = SIZE_AND_KEY.unpack_from


class Assembly:
    """A large frame, including its size field, that has arrived in part."""

    __slots__ = ("buffer", "filled_bytes", "reservation", "whole_bytes")

    def __init__(self, buffer: memoryview, head: memoryview, reservation: Reservation) -> None:
        self.buffer = buffer
        self.reservation = reservation
        self.whole_bytes = reservation.frame_bytes
        self.filled_bytes = len(head)
        buffer[: self.filled_bytes] = head

    @property
    def free(self) -> memoryview:
        """Space for the next bytes, as far as memory has been granted."""
        return self.buffer[self.filled_bytes : self.reservation.size_bytes]

    @property
    def is_whole(self) -> bool:
        """Whether the whole frame has arrived."""
        return self.filled_bytes == self.whole_bytes


class FrameReceiver:
    """The input of one connection."""

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
        self._limits = limits
        self._share = 1.0
        self._max_frame_bytes = limits.socket_request_max_bytes
        self._max_client_bytes = limits.client_request_max_bytes
        self._is_control_plane = is_control_plane
        # Unparsed input: view[start:end], in an arena or in a private copy.
        self._view = _EMPTY
        self._start = 0
        self._end = 0
        self._arena: Arena | None = None
        self._offered: Arena | None = None
        self._kept_bytes = 0
        self._assembly: Assembly | None = None
        # Reservation of the next frame, if that is a large one.
        self._reservation: Reservation | None = None
        # Size to which the reservation must grow before the next read; 0 if it need not grow.
        self.wanted_bytes = 0
        # Reason why later input cannot be parsed or kept; empty if there is none.
        self.failure = ""
        # Gives back the buffer of the last returned frame, if that frame has its own.
        self.release_frame: Callable[[], None] | None = None

    @property
    def holds_memory(self) -> bool:
        """Whether there is a partial frame, or frames that were not taken."""
        return self._assembly is not None or self._start < self._end

    @property
    def assembled_bytes(self) -> int:
        """Number of bytes received of an incomplete large frame; 0 without one."""
        assembly = self._assembly
        return 0 if assembly is None or assembly.is_whole else assembly.filled_bytes

    @property
    def next_api_key(self) -> int | None:
        """API key of the next frame; None until its first bytes have arrived."""
        assembly = self._assembly
        if assembly is not None:
            return int(_peek_size_and_key(assembly.buffer)[1])
        if self._end - self._start < SIZE_AND_KEY_BYTES:
            return None
        return int(_peek_size_and_key(self._view, self._start)[1])

    def wait_for_memory(self, waiter: Callable[[], None]) -> None:
        """Have `waiter` called once the memory that `take` needs is available."""
        assert self._reservation is not None, "only a large frame needs memory"
        self._memory.wait(waiter, self._reservation, self.wanted_bytes)

    def restrict(self, max_frame_bytes: int | None) -> None:
        """Limit the frames of a client that is not authenticated; None ends that.

        Such clients share a small part of the memory, so that they do not keep others out.
        """
        most = self._limits.socket_request_max_bytes
        self._max_frame_bytes = most if max_frame_bytes is None else min(max_frame_bytes, most)
        self._share = 1.0 if max_frame_bytes is None else UNAUTHENTICATED_SHARE

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next read, never empty. No state changes until `receive`."""
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
        """Accept `byte_count` bytes read into the last `get_buffer`; then proceed like `take`."""
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
        """Return the next whole frames, `limit` at most, without their size fields.

        They are valid until the pool is recycled or, if `release_frame` is set, until that is
        called. A partial frame is kept outside the arena, which other connections may use.
        Afterwards a non-empty `failure` means that the input is useless, and a positive
        `wanted_bytes` that the next frame needs memory that is not available: call this again
        later.
        """
        self.release_frame = None
        if self._assembly is not None:
            return self._take_assembly(self._assembly, limit)
        end = self._end
        frames, start = split_frames(self._view, self._start, end, limit, self._max_frame_bytes)
        self._start = start
        if start == end and self._arena is not None:
            # The common case, without a call: all input is parsed, nothing is kept.
            self._arena.position = start
            self._arena = None
        else:
            if len(frames) < limit and end - start >= SIZE_BYTES:
                self._check_size()
            self._settle(end - start)
        return frames

    def close(self) -> None:
        """Drop all input and give back all memory; frames handed out stay valid."""
        self._drop_rest()
        assembly, self._assembly = self._assembly, None
        self._reservation = None
        if assembly is not None:
            self._give_back(assembly)

    def _check_size(self) -> None:
        """Set `failure` if the size of the next frame is not allowed."""
        (size_bytes,) = _peek_size(self._view, self._start)
        if not 0 <= size_bytes <= self._max_frame_bytes:
            self.failure = (
                "the client speaks TLS, and this listener does not"
                if size_bytes >> 16 == TLS_HANDSHAKE
                else f"frame of {size_bytes} bytes; at most {self._max_frame_bytes}"
            )
        elif size_bytes > self._max_client_bytes and self._end - self._start >= SIZE_AND_KEY_BYTES:
            key = _peek_size_and_key(self._view, self._start)[1]
            if key not in LARGE_REQUEST_APIS:
                self.failure = (
                    f"{_name_of(key)} request of {size_bytes} bytes; "
                    f"at most {self._max_client_bytes}"
                )

    def _settle(self, rest_bytes: int) -> None:
        """Release the arena behind the frames handed out, and keep the partial frame."""
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
            self._memory.keep(rest_bytes, self._share)
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
        """Move the head of a large frame to its own buffer; return False if it must stay."""
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
                share=self._share,
            )
        if not self._is_granted(self._reservation, rest_bytes):
            return False
        buffer = self._pool.take_buffer(whole_bytes)
        head = self._view[self._start : self._end]
        self._assembly = Assembly(buffer, head, self._reservation)
        self._drop_rest()
        return True

    def _is_granted(self, reservation: Reservation, filled_bytes: int) -> bool:
        """Reserve twice `filled_bytes`, the received part of a frame; False without memory."""
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
