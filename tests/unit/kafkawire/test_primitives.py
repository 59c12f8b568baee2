import uuid
from dataclasses import dataclass

import pytest

from kafkawire.errors import DecodeError, EncodeError
from kafkawire.primitives import (
    MAX_TAGGED_FIELDS,
    MAX_UVARINT,
    number_array_reader,
    number_array_writer,
    read_uvarint,
    records_size_bytes,
    skip_tags,
    string_length,
    uuid_from_bytes,
    uvarint,
)

GOLDEN_VARINTS = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16384, "808001"),
    (0x7FFF_FFFF, "ffffffff07"),
    (MAX_UVARINT, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "data"), GOLDEN_VARINTS)
def test_varints_carry_seven_bits_a_byte(value: int, data: str) -> None:
    assert uvarint(value).hex() == data
    assert read_uvarint(bytes.fromhex("ff" + data + "ff"), 1) == (value, 1 + len(data) // 2)


@pytest.mark.parametrize("data", ["8000", "80808000"])
def test_a_varint_with_needless_zeros_is_read_as_kafka_does(data: str) -> None:
    assert read_uvarint(bytes.fromhex(data), 0) == (0, len(data) // 2)


@pytest.mark.parametrize("data", ["ffffffff10", "808080808000", "ffffffffff01"])
def test_a_varint_beyond_32_bits_is_malformed(data: str) -> None:
    with pytest.raises(DecodeError, match="a varint has more than"):
        read_uvarint(bytes.fromhex(data), 0)


@pytest.mark.parametrize("value", [-1, MAX_UVARINT + 1])
def test_a_number_that_no_varint_holds_is_refused(value: int) -> None:
    with pytest.raises(EncodeError, match=f"got {value}"):
        uvarint(value)


def test_the_length_of_a_string_is_limited() -> None:
    assert string_length(0x8000) == uvarint(0x8000)
    with pytest.raises(EncodeError, match="at most 32767 bytes, got 32768"):
        string_length(0x8001)


def test_unknown_tagged_fields_are_skipped() -> None:
    many = b"".join(uvarint(tag) + b"\x02ab" for tag in range(MAX_TAGGED_FIELDS))
    data = many + b"rest"
    position = skip_tags(data, 0, MAX_TAGGED_FIELDS, len(data))
    assert data[position:] == b"rest"


def test_skipped_tagged_fields_are_limited() -> None:
    with pytest.raises(DecodeError, match=f"17 tagged fields; at most {MAX_TAGGED_FIELDS}"):
        skip_tags(bytes(100), 0, MAX_TAGGED_FIELDS + 1, 100)


def test_a_tagged_field_beyond_the_end_is_malformed() -> None:
    with pytest.raises(DecodeError, match="tagged field 7 has 3 bytes, 2 are left"):
        skip_tags(b"\x07\x03ab", 0, 1, 4)


def test_a_topic_id_is_built_from_its_bytes() -> None:
    expected = uuid.uuid5(uuid.NAMESPACE_DNS, "ottla")
    built = uuid_from_bytes(expected.bytes)
    assert built == expected
    assert hash(built) == hash(expected)
    assert repr(built) == repr(expected)


@pytest.mark.parametrize("count", [0, 1, 16, 17, 200])
@pytest.mark.parametrize("code", ["b", "h", "i", "q"])
def test_arrays_of_numbers_are_inverse_in_every_length(code: str, count: int) -> None:
    numbers = [-n % 100 for n in range(count)]
    plain = number_array_writer(code, compact=False)(numbers)
    compact = number_array_writer(code, compact=True)(tuple(numbers))
    assert plain[:4] == count.to_bytes(4, "big")
    assert read_uvarint(compact, 0)[0] == count + 1
    assert plain[4:] == compact[len(uvarint(count + 1)) :]
    assert number_array_reader(code)(plain, 4, count) == numbers


@dataclass
class Region:
    size_bytes: int


def test_records_of_every_type_have_a_size() -> None:
    shorts = memoryview(bytes(6)).cast("h")
    values = (b"abc", bytearray(4), memoryview(b"abcde"), shorts, Region(7))
    assert [records_size_bytes(value) for value in values] == [3, 4, 5, 6, 7]
