from hypothesis import given
from hypothesis import strategies as st

from kafkawire.framing import FrameSplitter
from kafkawire.primitives import MAX_UVARINT, read_uvarint, uvarint


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 40), min_size=1))
def test_frames_do_not_depend_on_how_the_bytes_arrive(
    frames: list[bytes], sizes: list[int]
) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    splitter = FrameSplitter(max_frame_bytes=50)
    received: list[memoryview] = []
    turn = 0
    while stream:
        size = sizes[turn % len(sizes)]
        received += splitter.feed(stream[:size])
        stream = stream[size:]
        turn += 1
    assert [bytes(frame) for frame in received] == frames
    assert splitter.pending_bytes == 0


@given(st.integers(0, MAX_UVARINT), st.binary(max_size=5))
def test_a_varint_is_read_as_it_was_written(value: int, rest: bytes) -> None:
    data = uvarint(value)
    assert read_uvarint(data + rest, 0) == (value, len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))
