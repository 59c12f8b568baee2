"""CRCs of ranges: `coordination.server.disk.range_crc`."""

import random
import zlib

from coordination.server.disk.range_crc import BLOCK_BYTES, RangeCrc, advance

DICE = random.Random(7)
DATA = DICE.randbytes(3 * BLOCK_BYTES + 5)


def test_every_range_has_the_crc_of_its_bytes() -> None:
    crcs = RangeCrc(DATA)
    for start in range(len(DATA) + 1):
        for end in range(start, len(DATA) + 1):
            assert crcs.of(start, end) == zlib.crc32(DATA[start:end])


def test_the_crc_of_a_range_continues_another_one() -> None:
    before = zlib.crc32(b"before")
    assert RangeCrc(DATA).of(9, 150, before) == zlib.crc32(DATA[9:150], before)


def test_a_crc_is_advanced_over_many_bytes() -> None:
    for count in (0, 1, 2, 3, 255, 65_537, 5_000_000):
        zeros = bytes(count)
        assert advance(0xC0FFEE, count) == zlib.crc32(zeros, 0xC0FFEE) ^ zlib.crc32(zeros)
