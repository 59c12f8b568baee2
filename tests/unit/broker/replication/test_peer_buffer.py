"""Receiving a response: `broker.replication.peer_buffer`."""

import pytest

from broker.replication.peer_buffer import INITIAL_BYTES, MAX_KEPT_BYTES, SIZE, PeerBuffer
from kafkawire.errors import DecodeError

LIMIT = 4 * MAX_KEPT_BYTES


def receive(buffer: PeerBuffer, data: bytes, step: int) -> memoryview:
    frame: memoryview | None = None
    while data:
        free = buffer.free
        count = min(step, len(free), len(data))
        free[:count] = data[:count]
        data = data[count:]
        assert frame is None
        frame = buffer.on_received(count)
    assert frame is not None
    return frame


def frame_of(body: bytes) -> bytes:
    return SIZE.pack(len(body)) + body


@pytest.mark.parametrize("step", [1, 3, 1 << 30])
@pytest.mark.parametrize("size_bytes", [0, 1, 1000])
def test_response_is_assembled_from_parts_of_any_size(step: int, size_bytes: int) -> None:
    buffer, body = PeerBuffer(LIMIT), bytes(range(250)) * 4
    assert bytes(receive(buffer, frame_of(body[:size_bytes]), step)) == body[:size_bytes]


@pytest.mark.parametrize("size_bytes", [INITIAL_BYTES - 4, INITIAL_BYTES, MAX_KEPT_BYTES + 1])
def test_large_response_gets_a_larger_buffer(size_bytes: int) -> None:
    buffer, body = PeerBuffer(LIMIT), b"x" * size_bytes
    for _ in range(2):
        assert bytes(receive(buffer, frame_of(body), 30_000)) == body
        buffer.reset()
        assert len(buffer.free) >= size_bytes
    receive(buffer, frame_of(b"small"), 100)
    buffer.reset()
    assert len(buffer.free) <= MAX_KEPT_BYTES


def test_returned_frame_stays_valid_until_the_next_response() -> None:
    buffer = PeerBuffer(LIMIT)
    first = receive(buffer, frame_of(b"first"), 100)
    buffer.reset()
    assert bytes(first) == b"first"
    assert bytes(receive(buffer, frame_of(b"other"), 100)) == b"other"


@pytest.mark.parametrize("size_bytes", [-1, LIMIT + 1])
def test_invalid_frame_size_is_refused(size_bytes: int) -> None:
    with pytest.raises(DecodeError, match="frame size must be within"):
        receive(PeerBuffer(LIMIT), SIZE.pack(size_bytes), 4)


def test_bytes_after_the_response_are_refused() -> None:
    with pytest.raises(DecodeError, match="1 bytes follow the response"):
        receive(PeerBuffer(LIMIT), frame_of(b"a") + b"b", 100)
