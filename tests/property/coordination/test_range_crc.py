"""The CRC of a range agrees with that of zlib."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from coordination.server.disk.range_crc import RangeCrc


@given(st.binary(max_size=400), st.data())
def test_the_crc_of_a_range_is_that_of_its_bytes(data: bytes, chosen: st.DataObject) -> None:
    start = chosen.draw(st.integers(0, len(data)))
    end = chosen.draw(st.integers(start, len(data)))
    previous = chosen.draw(st.integers(0, 2**32 - 1))
    assert RangeCrc(data).of(start, end, previous) == zlib.crc32(data[start:end], previous)
