"""The frame receiver returns whole frames: small ones copied, large ones received in place."""

import mmap
from pathlib import Path

import pytest

from kafkawire.errors import DecodeError
from kafkawire.response_receiver import (
    MAX_KEPT_BYTES,
    MAX_ROOMS,
    SCRATCH_BYTES,
    ResponseReceiver,
)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Receiver:
    """A frame receiver and the frames that it returned."""

    def __init__(self, max_frame_bytes: int = 1_000_000) -> None:
        self.views: list[memoryview] = []
        self.receiver = ResponseReceiver(max_frame_bytes)

    def feed(self, data: bytes) -> None:
        while data:
            buffer = self.receiver.free()
            assert len(buffer) > 0, "the event loop drops a connection whose buffer is full"
            part = data[: len(buffer)]
            buffer[: len(part)] = part
            self.views += self.receiver.receive(len(part))
            data = data[len(part) :]

    @property
    def frames(self) -> list[bytes]:
        return [bytes(view) for view in self.views]


def test_several_frames_in_one_piece() -> None:
    receiver = Receiver()
    receiver.feed(frame(b"one") + frame(b"") + frame(b"three") + frame(b"half")[:6])
    assert receiver.frames == [b"one", b"", b"three"]
    receiver.feed(b"lf")
    assert receiver.frames[-1] == b"half"


def test_a_frame_is_not_overwritten_by_later_ones() -> None:
    receiver = Receiver()
    for number in range(100):
        receiver.feed(frame(b"%03d" % number))
    assert receiver.frames == [b"%03d" % number for number in range(100)]


def test_an_announced_size_takes_no_memory() -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    receiver = Receiver(2**31 - 1)
    before_bytes = resident_bytes()
    receiver.feed(b"HTTP/1.1 400 Bad Request")
    assert len(receiver.receiver.free()) > 1 << 30
    assert resident_bytes() - before_bytes < 1 << 26


def test_a_frame_larger_than_the_scratch_buffer_is_received_in_place() -> None:
    receiver = Receiver()
    large = bytes(range(256)) * 1_000
    data = frame(b"before") + frame(large) + frame(b"after")
    receiver.feed(data[:1_000])
    before = receiver.receiver.free()
    receiver.feed(data[1_000:])
    assert receiver.frames == [b"before", large, b"after"]
    # The rest of the large frame was received directly into the memory of that frame.
    assert before.obj is receiver.views[1].obj


def test_a_frame_as_large_as_the_scratch_buffer_fits() -> None:
    receiver = Receiver()
    for size in (SCRATCH_BYTES - 4, SCRATCH_BYTES - 3, SCRATCH_BYTES):
        receiver.feed(frame(b"x" * size))
        assert len(receiver.views[-1]) == size


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_an_impossible_size_is_refused_before_memory_is_taken(size: int) -> None:
    receiver = Receiver(max_frame_bytes=100)
    with pytest.raises(DecodeError, match="the limit is 100"):
        receiver.feed(size.to_bytes(4, "big", signed=True))


def large(number: int, size: int) -> bytes:
    return frame(bytes([number]) * size)


def room_of(receiver: Receiver) -> int:
    """Forget all frames, and return the identity of the memory of the last one."""
    room = id(receiver.views[-1].obj)
    receiver.views.clear()
    return room


def test_a_large_frame_is_received_in_memory_that_nobody_refers_to() -> None:
    receiver = Receiver()
    receiver.feed(large(1, 2 * SCRATCH_BYTES))
    first = room_of(receiver)
    receiver.feed(large(2, SCRATCH_BYTES))
    part = receiver.views[-1][10:20]
    assert room_of(receiver) == first
    receiver.feed(large(3, SCRATCH_BYTES))
    assert room_of(receiver) != first, "a part of the second frame is still in use"
    assert part == bytes([2]) * 10
    del part
    receiver.feed(large(4, 2 * SCRATCH_BYTES))
    assert room_of(receiver) == first


def test_memory_that_is_too_small_is_not_used_again() -> None:
    receiver = Receiver(max_frame_bytes=4 * MAX_KEPT_BYTES)
    rooms = set()
    for size in (SCRATCH_BYTES, MAX_KEPT_BYTES, 2 * MAX_KEPT_BYTES):
        receiver.feed(large(1, size))
        assert bytes(receiver.views[-1]) == bytes([1]) * size
        rooms.add(room_of(receiver))
    assert len(rooms) == 3


def test_a_small_frame_ends_the_use_of_much_memory() -> None:
    receiver = Receiver(max_frame_bytes=4 * MAX_KEPT_BYTES)
    for size, is_kept in ((MAX_KEPT_BYTES - 4, True), (MAX_KEPT_BYTES, False)):
        receiver.feed(large(1, size) + frame(b"small"))
        receiver.views.clear()
        receiver.feed(large(2, SCRATCH_BYTES)[:1_000])
        room = memoryview(receiver.receiver.free().obj)
        assert (len(room) == size + 4) is is_kept
        del room
        receiver.feed(large(2, SCRATCH_BYTES)[1_000:])
        receiver.views.clear()


def test_few_rooms_are_kept_however_many_frames_are_in_use() -> None:
    receiver = Receiver()
    for number in range(3 * MAX_ROOMS):
        receiver.feed(large(number, SCRATCH_BYTES))
    assert receiver.frames == [bytes([number]) * SCRATCH_BYTES for number in range(3 * MAX_ROOMS)]
    rooms = [id(view.obj) for view in receiver.views]
    receiver.views.clear()
    for number in range(MAX_ROOMS):
        receiver.feed(large(number, SCRATCH_BYTES))
    assert {id(view.obj) for view in receiver.views} == set(rooms[-MAX_ROOMS:])


def test_an_unsolicited_frame_does_not_overwrite_one_in_use() -> None:
    receiver = Receiver()
    receiver.feed(large(1, SCRATCH_BYTES))
    # Its size arrives, and none of its bytes, while the first one is in use.
    second = large(2, SCRATCH_BYTES)
    receiver.feed(second[:4])
    receiver.feed(second[4:] + frame(b"third"))
    assert receiver.frames == [bytes([1]) * SCRATCH_BYTES, second[4:], b"third"]
