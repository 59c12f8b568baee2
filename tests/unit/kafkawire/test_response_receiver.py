"""The frame receiver returns whole frames: small ones copied, large ones received in place."""

import mmap
from pathlib import Path

import pytest

from kafkawire.errors import DecodeError
from kafkawire.response_receiver import MAX_KEPT_BYTES, SCRATCH_BYTES, ResponseReceiver


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


def test_a_large_frame_is_received_in_the_memory_that_its_owner_has_given_back() -> None:
    receiver = Receiver(max_frame_bytes=4 * MAX_KEPT_BYTES)
    sizes = (MAX_KEPT_BYTES + 1, SCRATCH_BYTES, MAX_KEPT_BYTES + 2)
    for size in sizes:
        data = frame(bytes(range(250)) * (size // 250) + b"x" * (size % 250))
        receiver.feed(data[:1_000])
        receiver.feed(data[1_000:])
        assert bytes(receiver.views[-1]) == data[4:]
        receiver.receiver.reuse(receiver.views[-1])
    first, second, third = (view.obj for view in receiver.views)
    assert first is second
    assert first is not third, "it was too small"
    receiver.feed(frame(b"small"))
    receiver.receiver.reuse(receiver.views[-1])
    receiver.feed(frame(b"x" * SCRATCH_BYTES))
    assert receiver.views[-1].obj is not third, "a small frame ends the use of so much memory"
    receiver.receiver.reuse(receiver.views[-1])
    receiver.feed(frame(b"small"))
    receiver.receiver.reuse(receiver.views[-1])
    receiver.feed(frame(b"x" * SCRATCH_BYTES))
    assert receiver.views[-1].obj is receiver.views[-3].obj


def test_an_unsolicited_frame_keeps_its_own_memory() -> None:
    receiver = Receiver()
    first, second = frame(b"1" * (SCRATCH_BYTES + 100)), frame(b"2" * SCRATCH_BYTES)
    # Its size arrives, and none of its bytes, before the memory of the first one is given back.
    receiver.feed(first[:SCRATCH_BYTES])
    receiver.feed(first[SCRATCH_BYTES:])
    receiver.feed(second[:4])
    receiver.receiver.reuse(receiver.views[0])
    receiver.feed(second[4:] + frame(b"third"))
    assert receiver.frames[1:] == [second[4:], b"third"]
