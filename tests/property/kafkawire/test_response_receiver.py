"""The same frames result from any chunks of the same bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.response_receiver import SCRATCH_BYTES, ResponseReceiver

SIZES = st.lists(
    st.integers(0, 20)
    | st.integers(0, 2 * SCRATCH_BYTES)
    | st.integers(SCRATCH_BYTES - 5, SCRATCH_BYTES + 5),
    max_size=8,
)
# A large last piece bounds the number of pieces.
CUTS = st.builds(
    lambda pieces, last: [*pieces, last],
    st.lists(st.integers(1, 500) | st.integers(1_000, 4 * SCRATCH_BYTES), max_size=20),
    st.integers(SCRATCH_BYTES // 2, 4 * SCRATCH_BYTES),
)


class Feed:
    """Passes bytes to a receiver, in pieces of the given sizes."""

    def __init__(self, cuts: list[int]) -> None:
        self.receiver = ResponseReceiver(10 * SCRATCH_BYTES)
        self._cuts = cuts
        self._turn = 0

    def __call__(self, data: bytes) -> list[memoryview]:
        frames: list[memoryview] = []
        while data:
            buffer = self.receiver.free()
            assert len(buffer) > 0
            part = data[: min(len(buffer), self._cuts[self._turn % len(self._cuts)])]
            buffer[: len(part)] = part
            frames += self.receiver.receive(len(part))
            data = data[len(part) :]
            self._turn += 1
        return frames


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@settings(deadline=None)
@given(SIZES, CUTS)
def test_frames_do_not_depend_on_the_chunks(sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes([index]) * size for index, size in enumerate(sizes)]
    frames = Feed(cuts)(b"".join(map(frame, bodies)))
    assert [bytes(each) for each in frames] == bodies


@settings(deadline=None)
@given(SIZES, CUTS, st.integers(0, 3))
def test_frames_do_not_depend_on_the_memory_that_they_share(
    sizes: list[int], cuts: list[int], kept_count: int
) -> None:
    """The reader forgets all frames but the last ones, whose memory must not be used again."""
    feed, kept = Feed(cuts), list[tuple[bytes, memoryview]]()
    for index, size in enumerate(sizes):
        body = bytes([index]) * size
        [received] = feed(frame(body))
        kept = [*kept, (body, received)][-kept_count:]
        del received
        assert all(bytes(view) == expected for expected, view in kept)
