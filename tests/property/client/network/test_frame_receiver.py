"""The same frames result from any chunks of the same bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.network.frame_receiver import SCRATCH_BYTES, FrameReceiver

SIZES = st.lists(st.integers(0, 20) | st.integers(0, 2 * SCRATCH_BYTES), max_size=8)


@settings(deadline=None)
@given(SIZES, st.lists(st.integers(1, 500) | st.integers(1_000, 40_000), min_size=1, max_size=20))
def test_frames_do_not_depend_on_the_chunks(sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes([index]) * size for index, size in enumerate(sizes)]
    frames: list[memoryview] = []
    receiver = FrameReceiver(10 * SCRATCH_BYTES, frames.append)
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    position = turn = 0
    while position < len(stream):
        buffer = receiver.buffer()
        assert len(buffer) > 0
        part = stream[position : position + min(len(buffer), cuts[turn % len(cuts)])]
        buffer[: len(part)] = part
        receiver.on_received(len(part))
        position += len(part)
        turn += 1
    assert [bytes(frame) for frame in frames] == bodies
