import pytest

from kafkawire.errors import DecodeError
from kafkawire.framing import FrameSplitter


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def test_whole_frames_come_out_in_order_without_their_sizes() -> None:
    splitter = FrameSplitter(max_frame_bytes=100)
    assert list(splitter.feed(frame(b"one") + frame(b"") + frame(b"two"))) == [b"one", b"", b"two"]
    assert splitter.pending_bytes == 0


def test_a_frame_waits_for_its_last_byte() -> None:
    splitter = FrameSplitter(max_frame_bytes=100)
    data = frame(b"one")
    for end in range(1, len(data)):
        assert list(splitter.feed(data[end - 1 : end])) == []
        assert splitter.pending_bytes == end
    assert list(splitter.feed(data[-1:] + frame(b"two") + b"\0")) == [b"one", b"two"]
    assert splitter.pending_bytes == 1


def test_frames_stay_as_they_are_when_more_is_fed() -> None:
    splitter = FrameSplitter(max_frame_bytes=100)
    received = bytearray(frame(b"one"))
    (first,) = splitter.feed(received)
    received[:] = frame(b"two")
    (second,) = splitter.feed(received)
    assert [bytes(first), bytes(second)] == [b"one", b"two"]


def test_what_is_fed_is_taken_in_even_if_nobody_looks_at_the_frames() -> None:
    splitter = FrameSplitter(max_frame_bytes=100)
    splitter.feed(frame(b"one") + b"\0\0")
    assert splitter.pending_bytes == 2


def test_a_frame_of_exactly_the_limit_passes() -> None:
    assert list(FrameSplitter(max_frame_bytes=3).feed(frame(b"one"))) == [b"one"]


@pytest.mark.parametrize("size", ["00000004", "7fffffff", "ffffffff", "80000000"])
def test_an_impossible_size_is_refused_before_the_frame_arrives(size: str) -> None:
    with pytest.raises(DecodeError, match=r"a frame has 0\.\.3 bytes, announced are"):
        FrameSplitter(max_frame_bytes=3).feed(frame(b"one") + bytes.fromhex(size))
