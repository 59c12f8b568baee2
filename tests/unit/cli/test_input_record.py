import json
import sys

import pytest

from ottla.cli.input_record import InputError, InputRecord, LineSplitter, line_parser, parse_time_ms

JSON = line_parser(key_separator=None, is_json=True)


def split(*chunks: bytes) -> list[bytes]:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines + list(splitter.finish())


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="whole lines"),
        pytest.param([b"a\nb"], [b"a", b"b"], id="no line feed at the end"),
        pytest.param([b"a", b"b", b"c\nd\n"], [b"abc", b"d"], id="a line over three chunks"),
        pytest.param([b"\n\n"], [b"", b""], id="empty lines are records"),
        pytest.param([], [], id="no input"),
        pytest.param([b"a\r\n"], [b"a\r"], id="carriage returns stay"),
    ],
)
def test_splitter_splits_at_line_feeds_only(chunks: list[bytes], lines: list[bytes]) -> None:
    assert split(*chunks) == lines


def test_splitter_rejects_a_line_beyond_the_limit() -> None:
    splitter = LineSplitter(max_line_bytes=10)
    splitter.feed(b"12345\n1234567890")
    with pytest.raises(InputError, match="longer than the limit of 10 bytes"):
        splitter.feed(b"1")


def test_plain_line_becomes_the_value() -> None:
    parse = line_parser(key_separator=None, is_json=False)
    assert parse(b"a:b") == InputRecord(value=b"a:b")


def test_key_ends_at_the_first_separator() -> None:
    parse = line_parser(key_separator="::", is_json=False)
    assert parse(b"k::v::w") == InputRecord(key=b"k", value=b"v::w")
    with pytest.raises(InputError, match="no separator '::'"):
        parse(b"k:v")


def test_a_separator_that_is_not_utf_8_is_found() -> None:
    # Python's form of the byte 0xe9, "é" in Latin-1, in an argument.
    parse = line_parser(key_separator="\udce9", is_json=False)
    assert parse(b"k\xe9v") == InputRecord(key=b"k", value=b"v")
    with pytest.raises(InputError, match=r"no separator '\\\\xe9'"):
        parse(b"kv")


def test_json_line_sets_every_field_of_a_record() -> None:
    line = {
        "key": "k",
        "value": "v",
        "partition": 2,
        "timestamp": "2026-01-31T12:00:00Z",
        "headers": {"a": "1", "b": None},
    }
    assert JSON(json.dumps(line).encode()) == InputRecord(
        key=b"k",
        value=b"v",
        partition=2,
        timestamp_ms=1_769_860_800_000,
        headers=(("a", b"1"), ("b", None)),
    )


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('{"value": "text"}', b"text"),
        ('{"value": {"a": [1, "ü"]}}', '{"a":[1,"ü"]}'.encode()),
        ('{"value": 7}', b"7"),
        ('{"value": null}', None),
        ("{}", None),
        ('{"value_base64": "/w=="}', b"\xff"),
    ],
)
def test_json_value_other_than_a_string_is_sent_as_json(line: str, value: bytes | None) -> None:
    assert JSON(line.encode()).value == value


def test_repeated_headers_keep_their_order() -> None:
    line = '{"headers": [{"key": "a", "value": "1"}, {"key": "a", "value_base64": "/w=="}]}'
    assert JSON(line.encode()).headers == (("a", b"1"), ("a", b"\xff"))


def test_fields_that_consume_adds_are_accepted_and_ignored() -> None:
    line = b'{"topic": "t", "offset": 5, "timestamp": -1, "value": "v"}'
    assert JSON(line) == InputRecord(value=b"v"), "-1 means that the record has no timestamp"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ('{"colour": 1}', "unknown field colour"),
        ('{"partition": -1}', "partition -1"),
        ('{"partition": true}', "partition True"),
        ('{"timestamp": "soon"}', "'soon' is not a time"),
        ('{"timestamp": 1.5}', "timestamp 1.5"),
        ('{"value_base64": "*"}', "not valid base64"),
        ('{"value": "a", "value_base64": "YQ=="}', "value and value_base64 are both present"),
        ('{"headers": 3}', "headers are neither"),
        ('{"headers": [{"value": "x"}]}', "a header has no key"),
        (r'{"value": "\ud800"}', "lone surrogate"),
        (r'{"key": ["\ud800"]}', "lone surrogate"),
        (r'{"headers": {"\udfff": "x"}}', "lone surrogate"),
        (r'{"headers": [{"key": "\udfff"}]}', "lone surrogate"),
        ("[" * 200_000, "nested too deeply"),
        ('{"timestamp": -2}', "timestamp -2 must be within 0.."),
        ('{"timestamp": "1969-12-31"}', "must be within 0.."),
        ('{"timestamp": 9223372036854775807}', "must be within 0.."),
        ('{"timestamp": 9223372036854775808}', "must be within 0.."),
    ],
)
def test_invalid_json_line_is_rejected_with_the_reason(line: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason.replace(".", r"\.")):
        JSON(line.encode())


def test_no_depth_of_nesting_ends_the_command() -> None:
    parse = line_parser(key_separator=None, is_json=True)
    ends = set()
    for depth in range(1, sys.getrecursionlimit()):
        try:
            ends.add(parse(f'{{"value": {"[" * depth}{"]" * depth}}}'.encode()).key)
        except InputError as error:
            ends.add(str(error).encode())
    assert ends == {None, b"its arrays and objects are nested too deeply"}


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.123", 123),
        ("1970-01-01", 0),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_time_without_a_zone_is_utc(text: str, timestamp_ms: int) -> None:
    assert parse_time_ms(text) == timestamp_ms
