from hypothesis import given
from hypothesis import strategies as st

from kafkawire.primitives import MAX_UVARINT, read_uvarint, uvarint


@given(st.integers(0, MAX_UVARINT), st.binary(max_size=5))
def test_varint_round_trips(value: int, rest: bytes) -> None:
    data = uvarint(value)
    assert read_uvarint(data + rest, 0) == (value, len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))
