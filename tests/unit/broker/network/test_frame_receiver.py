"""Frames are found wherever reads are cut, and are not overwritten while somebody needs them."""

from __future__ import annotations

import struct

import pytest

from broker.network.buffer_pool import ARENA_BYTES, BufferPool
from broker.network.frame_receiver import LARGE_FRAME_BYTES, FrameReceiver
from broker.network.receive_memory import ReceiveMemory

MAX_FRAME_BYTES = 4 * 1024 * 1024
MANY = 1000


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Input:
    """A receiver with its pool, fed as a connection feeds it."""

    def __init__(self, limit_bytes: int = 16 * MAX_FRAME_BYTES, pool: BufferPool | None = None):
        self.pool = pool or BufferPool()
        self.memory = ReceiveMemory(limit_bytes)
        self.receiver = FrameReceiver(self.pool, self.memory, MAX_FRAME_BYTES)
        self.frames: list[memoryview] = []

    def read(self, data: bytes, limit: int = MANY) -> None:
        """One read of the loop."""
        buffer = self.receiver.get_buffer()
        assert len(buffer) >= len(data)
        buffer[: len(data)] = data
        self.frames += self.receiver.receive(len(data), limit)

    def parse(self) -> None:
        self.frames += self.receiver.take(MANY)

    def read_all(self, data: bytes) -> None:
        while data:
            count = min(len(data), len(self.receiver.get_buffer()))
            self.read(data[:count])
            data = data[count:]

    @property
    def bodies(self) -> list[bytes]:
        return [bytes(frame) for frame in self.frames]


def test_several_frames_of_one_read() -> None:
    source = Input()
    source.read(sized(b"one") + sized(b"") + sized(b"three"))
    assert source.bodies == [b"one", b"", b"three"]


def test_a_frame_that_comes_byte_by_byte() -> None:
    source = Input()
    for byte in sized(b"slow") + sized(b"loris"):
        source.read(bytes([byte]))
    assert source.bodies == [b"slow", b"loris"]
    assert source.memory.kept_bytes == 0


def test_the_bytes_of_half_a_frame_are_counted() -> None:
    source = Input()
    source.read(sized(b"whole") + sized(b"half")[:6])
    assert source.memory.kept_bytes == 6
    source.read(sized(b"half")[6:])
    assert source.memory.kept_bytes == 0
    assert source.bodies == [b"whole", b"half"]


def test_frames_are_writable_where_they_were_read() -> None:
    source = Input()
    source.read(sized(b"base offset"))
    source.frames[0][0:4] = b"case"
    assert source.bodies == [b"case offset"]


def test_a_large_frame_is_assembled_in_a_buffer_of_its_own() -> None:
    source = Input()
    body = bytes(range(256)) * (LARGE_FRAME_BYTES // 128)
    source.read(sized(body)[:1000])
    assert source.receiver.holds_memory
    assert source.memory.reserved_bytes == 4 + len(body)
    assert source.memory.kept_bytes == 0
    source.read_all(sized(body)[1000:])
    assert source.bodies == [body]
    assert not source.receiver.holds_memory


def test_a_read_never_goes_beyond_the_end_of_a_large_frame() -> None:
    source = Input()
    frame = sized(bytes(LARGE_FRAME_BYTES))
    source.read(frame[:10])
    assert len(source.receiver.get_buffer()) == len(frame) - 10


def test_a_large_frames_buffer_comes_back_when_it_is_released() -> None:
    source = Input()
    frame = sized(bytes(LARGE_FRAME_BYTES))
    source.read(frame[:10])
    buffer = source.receiver.get_buffer()
    buffer[:] = frame[10:]
    assert len(source.receiver.receive(len(buffer), MANY)) == 1
    release = source.receiver.release_frame
    assert release is not None
    assert source.receiver.take(MANY) == []
    assert source.receiver.release_frame is None, "it belongs to the frame before"
    assert source.memory.reserved_bytes == len(frame)
    release()
    assert source.memory.reserved_bytes == 0
    assert source.pool.pooled_bytes > 0


def test_a_large_frame_that_arrives_whole_is_not_copied() -> None:
    source = Input()
    source.read(sized(bytes(LARGE_FRAME_BYTES * 2)))
    assert len(source.frames[0]) == LARGE_FRAME_BYTES * 2
    assert (source.memory.reserved_bytes, source.pool.pooled_bytes) == (0, 0)
    assert source.receiver.release_frame is None


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_an_impossible_size_is_refused_before_anything_is_allocated(size: int) -> None:
    source = Input()
    source.read(struct.pack(">i", size) + b"more")
    assert source.receiver.failure == f"frame of {size} bytes; at most {MAX_FRAME_BYTES}"
    assert (source.memory.reserved_bytes, source.memory.kept_bytes) == (0, 0)


def test_frames_before_an_impossible_size_are_found() -> None:
    source = Input()
    source.read(sized(b"good") + struct.pack(">i", -1) + sized(b"not looked at"))
    assert source.bodies == [b"good"]
    assert source.receiver.failure
    Input(pool=source.pool).read(sized(b"Z" * 1000))
    assert source.bodies == [b"good"]


def test_a_large_frame_waits_until_it_may_be_taken() -> None:
    source = Input()
    frame = sized(bytes(LARGE_FRAME_BYTES))
    source.read(frame[:10])
    source.read(frame[10:], limit=0)
    assert source.bodies == []
    source.parse()
    assert source.bodies == [bytes(LARGE_FRAME_BYTES)]


def test_the_largest_frame_that_is_allowed_is_received() -> None:
    source = Input()
    source.read_all(sized(bytes(MAX_FRAME_BYTES)))
    assert [len(frame) for frame in source.frames] == [MAX_FRAME_BYTES]


def test_another_connection_does_not_overwrite_frames_that_wait() -> None:
    pool = BufferPool()
    one, other = Input(pool=pool), Input(pool=pool)
    one.read(sized(b"A" * 100))
    other.read(sized(b"B" * 100) + sized(b"C" * 50)[:20])
    one.read(sized(b"D" * 100))
    assert one.bodies == [b"A" * 100, b"D" * 100]
    assert other.bodies == [b"B" * 100]


def test_an_offered_buffer_that_was_not_used_changes_nothing() -> None:
    """A read that finds nothing: the loop asks for a buffer and does not come back."""
    pool = BufferPool()
    one, other = Input(pool=pool), Input(pool=pool)
    one.read(sized(b"half")[:5])
    one.receiver.get_buffer()
    other.read(sized(b"X" * 100))
    one.parse()
    one.read(sized(b"half")[5:])
    assert one.bodies == [b"half"]
    assert other.bodies == [b"X" * 100]


def test_after_recycling_the_memory_is_used_again() -> None:
    source = Input()
    source.read(sized(b"first"))
    source.pool.recycle()
    source.read(sized(b"again"))
    assert source.bodies == [b"again", b"again"], "the first frame was over"


def test_half_a_frame_survives_recycling() -> None:
    source = Input()
    source.read(sized(b"survivor")[:9])
    source.pool.recycle()
    Input(pool=source.pool).read(sized(b"Z" * 1000))
    source.pool.recycle()
    source.read(sized(b"survivor")[9:])
    assert source.bodies == [b"survivor"]


def test_whole_frames_that_were_not_taken_are_kept_outside_the_arena() -> None:
    source = Input()
    data = sized(b"one") + sized(b"two") + sized(b"three")[:5]
    source.read(data, limit=1)
    assert source.memory.kept_bytes == len(data) - 7
    Input(pool=source.pool).read(sized(b"Z" * 1000))
    assert source.bodies == [b"one"]
    source.parse()
    assert source.bodies == [b"one", b"two"]
    source.read(sized(b"three")[5:])
    assert source.bodies == [b"one", b"two", b"three"]
    assert source.memory.kept_bytes == 0


def test_without_memory_the_head_of_a_large_frame_waits() -> None:
    source = Input(limit_bytes=MAX_FRAME_BYTES)
    assert source.memory.try_reserve(MAX_FRAME_BYTES)
    body = b"x" * (2 * LARGE_FRAME_BYTES)
    source.read(sized(body)[:100])
    assert source.receiver.wanted_bytes == 4 + len(body)
    assert source.memory.kept_bytes == 100
    source.memory.release(MAX_FRAME_BYTES)
    source.parse()
    assert (source.receiver.wanted_bytes, source.memory.kept_bytes) == (0, 0)
    source.read_all(sized(body)[100:])
    assert source.bodies == [body]


def test_what_cannot_be_kept_is_a_failure() -> None:
    source = Input(limit_bytes=10)
    source.read(sized(b"good") + sized(b"x" * 100)[:50])
    assert source.bodies == [b"good"]
    assert source.receiver.failure == "50 bytes on top of 0 exceed 10"
    assert source.memory.kept_bytes == 0


def test_closing_gives_everything_back() -> None:
    half, assembling = Input(), Input()
    half.read(sized(b"half")[:5])
    assembling.read(sized(bytes(LARGE_FRAME_BYTES))[:5])
    for source in (half, assembling):
        source.receiver.close()
        source.receiver.close()
        assert (source.memory.reserved_bytes, source.memory.kept_bytes) == (0, 0)
    assert assembling.pool.pooled_bytes > 0


def test_a_frame_larger_than_an_arena_arrives_through_it() -> None:
    source = Input()
    body = struct.pack(">I", 0xDEADBEEF) * (ARENA_BYTES // 2)
    source.read_all(sized(b"before") + sized(body) + sized(b"after"))
    assert source.bodies == [b"before", body, b"after"]
