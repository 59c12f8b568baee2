"""Confluent's wire format, against bytes from its documentation."""

import pytest

from ottla.client.avro.wire_format import frame, unframe
from ottla.client.errors import SchemaError


def test_a_frame_is_a_zero_byte_the_id_in_four_bytes_and_the_value() -> None:
    assert frame(1_000, b"\x02x") == b"\x00\x00\x00\x03\xe8\x02x"
    assert unframe(b"\x00\x00\x00\x03\xe8\x02x") == (1_000, b"\x02x")
    assert unframe(b"\x00\x7f\xff\xff\xff") == (2**31 - 1, b"")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes cannot hold a schema id"),
        (b"\x00\x00\x00\x00", "4 bytes cannot hold a schema id"),
        (b'{"a":1}', r"begins with 7b2261223a, not with 00"),
        (b"\x00\xff\xff\xff\xff", "begins with 00ffffffff"),
    ],
)
def test_other_bytes_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        unframe(data)
