"""Frames are found for any sizes of reads, and are not overwritten while they are in use."""

from __future__ import annotations

import struct

import pytest

from broker.network.buffer_pool import ARENA_BYTES, BufferPool
from broker.network.frame_receiver import FIRST_GRANT_BYTES, LARGE_FRAME_BYTES, FrameReceiver
from broker.network.limits import MAX_CLIENT_REQUEST_BYTES, NetworkLimits
from broker.network.receive_memory import SMALL_FRAME_BYTES, ReceiveMemory
from kafkawire.apis import ApiKey

MAX_FRAME_BYTES = 4 * 1024 * 1024
MANY = 1000


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Input:
    """A receiver and its pool, used like a connection does."""

    def __init__(self, limit_bytes: int = 16 * MAX_FRAME_BYTES, pool: BufferPool | None = None):
        self.pool = pool or BufferPool()
        self.memory = ReceiveMemory(limit_bytes)
        limits = NetworkLimits(socket_request_max_bytes=MAX_FRAME_BYTES)
        self.receiver = FrameReceiver(self.pool, self.memory, limits)
        self.frames: list[memoryview] = []

    def read(self, data: bytes, limit: int = MANY) -> None:
        """Simulate one read of the loop."""
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


def test_several_frames_arrive_in_one_read() -> None:
    source = Input()
    source.read(sized(b"one") + sized(b"") + sized(b"three"))
    assert source.bodies == [b"one", b"", b"three"]


def test_a_frame_arrives_byte_by_byte() -> None:
    source = Input()
    for byte in sized(b"slow") + sized(b"loris"):
        source.read(bytes([byte]))
    assert source.bodies == [b"slow", b"loris"]
    assert source.memory.kept_bytes == 0


def test_the_bytes_of_a_partial_frame_are_counted() -> None:
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
    assert source.receiver.assembled_bytes == 1000
    assert source.memory.reserved_bytes == FIRST_GRANT_BYTES
    assert source.memory.kept_bytes == 0
    source.read_all(sized(body)[1000:])
    assert source.bodies == [body]
    assert not source.receiver.holds_memory


def test_a_read_never_goes_beyond_the_end_of_a_large_frame() -> None:
    source = Input()
    frame = sized(bytes(LARGE_FRAME_BYTES))
    source.read(frame[:10])
    read_bytes = 10
    while buffer := source.receiver.get_buffer():
        buffer[:] = frame[read_bytes : read_bytes + len(buffer)]
        read_bytes += len(buffer)
        if source.receiver.receive(len(buffer), MANY):
            break
    assert read_bytes == len(frame)


def test_a_frame_is_charged_for_received_bytes_not_for_its_announced_size() -> None:
    source = Input()
    frame = sized(bytes(MAX_FRAME_BYTES))
    source.read(frame[:10])
    charged = [source.memory.reserved_bytes]
    read_bytes = 10
    while read_bytes < len(frame):
        count = len(source.receiver.get_buffer())
        source.read(frame[read_bytes : read_bytes + count])
        read_bytes += count
        charged.append(source.memory.reserved_bytes)
        assert charged[-1] <= max(FIRST_GRANT_BYTES, 2 * read_bytes)
    assert charged[0] == FIRST_GRANT_BYTES
    assert charged[-1] == len(frame)
    assert source.bodies == [frame[4:]]


def test_a_frame_that_cannot_grow_waits_and_continues() -> None:
    source = Input(limit_bytes=4 * FIRST_GRANT_BYTES)
    oldest = source.memory.reservation(MAX_FRAME_BYTES, is_control_plane=False)
    assert source.memory.try_grow(oldest, FIRST_GRANT_BYTES)
    frame = sized(bytes(2 * SMALL_FRAME_BYTES))
    source.read(frame[:10])
    source.read(frame[10:FIRST_GRANT_BYTES])
    assert source.receiver.wanted_bytes == 2 * FIRST_GRANT_BYTES
    woken: list[str] = []
    source.receiver.wait_for_memory(lambda: woken.append("go on"))
    source.memory.release(oldest)
    source.memory.wake()
    assert woken == ["go on"]
    source.parse()
    assert source.receiver.wanted_bytes == 0
    source.read_all(frame[FIRST_GRANT_BYTES:])
    assert source.bodies == [frame[4:]]


@pytest.mark.parametrize(
    ("key", "name"), [(ApiKey.METADATA, "METADATA"), (999, "API 999")], ids=["known", "unknown"]
)
def test_a_client_request_beyond_its_limit_is_refused_by_its_first_bytes(
    key: int, name: str
) -> None:
    source = Input()
    source.receiver = FrameReceiver(source.pool, source.memory, NetworkLimits())
    size = MAX_CLIENT_REQUEST_BYTES + 1
    source.read(struct.pack(">ih", size, key)[:5])
    assert not source.receiver.failure
    source.read(struct.pack(">ih", size, key)[5:])
    assert source.receiver.failure == (
        f"{name} request of {size} bytes; at most {MAX_CLIENT_REQUEST_BYTES}"
    )
    assert (source.memory.reserved_bytes, source.memory.kept_bytes) == (0, 0)


def test_a_request_beyond_its_limit_is_refused_even_with_limit_zero() -> None:
    source = Input()
    source.receiver = FrameReceiver(source.pool, source.memory, NetworkLimits())
    source.read(struct.pack(">ih", MAX_CLIENT_REQUEST_BYTES + 1, ApiKey.METADATA), limit=0)
    assert source.receiver.failure


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.LEADER_AND_ISR])
def test_requests_with_records_or_all_partitions_may_be_larger(key: ApiKey) -> None:
    source = Input()
    source.receiver = FrameReceiver(source.pool, source.memory, NetworkLimits())
    source.read(struct.pack(">ih", MAX_CLIENT_REQUEST_BYTES + 1, key))
    assert not source.receiver.failure
    assert source.receiver.assembled_bytes == 6


def test_the_next_requests_api_is_known_before_it_is_whole() -> None:
    source = Input()
    keys = [source.receiver.next_api_key]
    for piece in (slice(5), slice(5, None)):
        source.read(struct.pack(">ih", 100, ApiKey.METADATA)[piece])
        keys.append(source.receiver.next_api_key)
    assert keys == [None, None, ApiKey.METADATA]
    large = Input()
    large.read(struct.pack(">ih", 2 * LARGE_FRAME_BYTES, ApiKey.FETCH))
    assert large.receiver.next_api_key == ApiKey.FETCH


def test_a_large_frames_buffer_returns_to_the_pool_on_release() -> None:
    source = Input()
    frame = sized(bytes(LARGE_FRAME_BYTES))
    source.read(frame[:10])
    source.read_all(frame[10:-1])
    source.read(frame[-1:])
    assert len(source.frames) == 1
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
    source.read_all(frame[10:-1])
    source.read(frame[-1:], limit=0)
    assert source.bodies == []
    source.parse()
    assert source.bodies == [bytes(LARGE_FRAME_BYTES)]


def test_the_largest_frame_that_is_allowed_is_received() -> None:
    source = Input()
    source.read_all(sized(bytes(MAX_FRAME_BYTES)))
    assert [len(frame) for frame in source.frames] == [MAX_FRAME_BYTES]


def test_another_connection_does_not_overwrite_waiting_frames() -> None:
    pool = BufferPool()
    one, other = Input(pool=pool), Input(pool=pool)
    one.read(sized(b"A" * 100))
    other.read(sized(b"B" * 100) + sized(b"C" * 50)[:20])
    one.read(sized(b"D" * 100))
    assert one.bodies == [b"A" * 100, b"D" * 100]
    assert other.bodies == [b"B" * 100]


def test_an_offered_buffer_that_was_not_used_changes_nothing() -> None:
    """A read may find no bytes: the loop requests a buffer and does not call `receive`."""
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


def test_a_partial_frame_survives_recycling() -> None:
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
    oldest = source.memory.reservation(MAX_FRAME_BYTES, is_control_plane=True)
    assert source.memory.try_grow(oldest, MAX_FRAME_BYTES)
    body = b"x" * (2 * LARGE_FRAME_BYTES)
    source.read(sized(body)[:100])
    assert source.receiver.wanted_bytes == FIRST_GRANT_BYTES
    assert source.memory.kept_bytes == 100
    source.memory.release(oldest)
    source.parse()
    assert (source.receiver.wanted_bytes, source.memory.kept_bytes) == (0, 0)
    source.read_all(sized(body)[100:])
    assert source.bodies == [body]


def test_input_that_cannot_be_kept_is_a_failure() -> None:
    source = Input(limit_bytes=10)
    source.read(sized(b"good") + sized(b"x" * 100)[:50])
    assert source.bodies == [b"good"]
    assert source.receiver.failure == "50 bytes in addition to 0 exceed 10"
    assert source.memory.kept_bytes == 0


def test_closing_releases_all_memory() -> None:
    half, assembling = Input(), Input()
    half.read(sized(b"half")[:5])
    assembling.read(sized(bytes(LARGE_FRAME_BYTES))[:6])
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
