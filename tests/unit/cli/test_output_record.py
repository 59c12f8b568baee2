import json

import pytest

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import TimestampType
from ottla.cli.input_record import line_parser
from ottla.cli.output_record import OutputFormat, record_size_bytes, record_writer
from ottla.client.record import ConsumerRecord

RECORD = ConsumerRecord(
    topic="t",
    partition=3,
    offset=Offset(7),
    timestamp_ms=1_769_860_800_123,
    key=b"k",
    value=b"v",
    headers=(("h", b"1"),),
    timestamp_type=TimestampType.CREATE_TIME,
    leader_epoch=LeaderEpoch(0),
)
TOMBSTONE = RECORD._replace(value=None, headers=())
BINARY = RECORD._replace(key=b"\xff", value=b"\x00\xfe", headers=(("h", b"\xff"), ("h", None)))


def test_value_format_writes_the_raw_value() -> None:
    write = record_writer(OutputFormat.VALUE)
    assert write(RECORD) == b"v\n"
    assert write(BINARY) == b"\x00\xfe\n"
    assert write(TOMBSTONE) == b"\n"


def test_key_value_format_puts_the_separator_between_key_and_value() -> None:
    assert record_writer(OutputFormat.KEY_VALUE)(RECORD) == b"k\tv\n"
    assert record_writer(OutputFormat.KEY_VALUE, separator="::")(TOMBSTONE) == b"k::\n"


def test_json_format_contains_every_field_of_a_record() -> None:
    assert json.loads(record_writer(OutputFormat.JSON)(RECORD)) == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": 1_769_860_800_123,
        "key": "k",
        "value": "v",
        "headers": [{"key": "h", "value": "1"}],
    }


def test_json_format_has_no_character_that_a_terminal_obeys() -> None:
    hostile = "\x1b]0;mine\x07\x9b2J\x7f\u202e\u2028größe"
    record = RECORD._replace(value=hostile.encode(), headers=((hostile, hostile.encode()),))
    line = record_writer(OutputFormat.JSON)(record).decode()
    assert not set("\x1b\x07\x9b\x7f\u202e\u2028") & set(line)
    assert "größe" in line
    assert json.loads(line)["value"] == json.loads(line)["headers"][0]["key"] == hostile


HOSTILE = "\x1b]0;mine\x07\x9b2J\x7f\r\x00\u202eé\n\t\U0001f389".encode() + b"\xff"
SHOWN = r"\x1b]0;mine\x07\x9b2J\x7f\r\x00\u202eé".encode() + "\n\t\U0001f389\\xff".encode()


def test_a_terminal_gets_no_character_of_a_record_that_it_obeys() -> None:
    record = RECORD._replace(key=HOSTILE, value=HOSTILE, headers=(("\x1b", HOSTILE),))

    def write(output_format: OutputFormat, template: str | None = None) -> bytes:
        return record_writer(output_format, template=template, is_for_terminal=True)(record)

    assert write(OutputFormat.VALUE) == SHOWN + b"\n"
    assert write(OutputFormat.KEY_VALUE) == SHOWN + b"\t" + SHOWN + b"\n"
    # The template is the user's own, and so are its colours.
    written = write(OutputFormat.KCAT, r"\x1b[1m%k %s %h")
    assert written == b"\x1b[1m" + b" ".join((SHOWN, SHOWN, b"\\x1b=" + SHOWN))


def test_a_pipe_gets_keys_and_values_byte_for_byte() -> None:
    record = RECORD._replace(key=HOSTILE, value=HOSTILE)
    assert record_writer(OutputFormat.KEY_VALUE)(record) == HOSTILE + b"\t" + HOSTILE + b"\n"


@pytest.mark.parametrize("record", [RECORD, TOMBSTONE, BINARY])
def test_produce_parses_the_json_output_of_consume(record: ConsumerRecord) -> None:
    line = record_writer(OutputFormat.JSON)(record).rstrip(b"\n")
    parsed = line_parser(key_separator=None, is_json=True)(line)
    assert (parsed.key, parsed.value, parsed.headers) == (record.key, record.value, record.headers)
    assert (parsed.partition, parsed.timestamp_ms) == (record.partition, record.timestamp_ms)


def test_template_fields_are_readable_text() -> None:
    template = "{topic}-{partition}@{offset} {timestamp} {timestamp_ms} {key}={value} [{headers}]"
    write = record_writer(OutputFormat.TEMPLATE, template=template)
    assert write(RECORD) == (b"t-3@7 2026-01-31T12:00:00.123Z 1769860800123 k=v [h=1]\n")
    assert write(BINARY).endswith(b"\\xff=\\x00\\xfe [h=\\xff,h=null]\n")


@pytest.mark.parametrize("template", ["{colour}", "{0}", "{offset", "{key.x}", "{offset:c}"])
def test_invalid_template_is_rejected_before_any_record_is_read(template: str) -> None:
    with pytest.raises(ValueError, match="fields are topic, partition"):
        record_writer(OutputFormat.TEMPLATE, template=template)


@pytest.mark.parametrize("width", ["10001", "99999999999", "1" * 5_000, ".10001", "{partition}"])
def test_template_width_has_a_limit(width: str) -> None:
    with pytest.raises(ValueError, match="a number up to 10000"):
        record_writer(OutputFormat.TEMPLATE, template=f"{{value:{width}}}")
    assert record_writer(OutputFormat.TEMPLATE, template="{offset:>10}")(RECORD)


def test_arguments_that_are_not_utf_8_are_written_as_they_are() -> None:
    # Python's form of the byte 0xe9, "é" in Latin-1, in an argument.
    write = record_writer(OutputFormat.TEMPLATE, template="\udce9{value}")
    assert write(RECORD) == b"\xe9v\n"
    assert record_writer(OutputFormat.KEY_VALUE, separator="\udce9")(RECORD) == b"k\xe9v\n"
    assert record_writer(OutputFormat.KCAT, template="\udce9%s")(RECORD) == b"\xe9v"


def test_template_format_needs_a_template() -> None:
    with pytest.raises(ValueError, match="--template"):
        record_writer(OutputFormat.TEMPLATE)


def test_record_size_counts_key_and_value() -> None:
    assert [record_size_bytes(record) for record in (RECORD, TOMBSTONE, BINARY)] == [2, 1, 3]


def test_kcat_format_fills_in_the_template() -> None:
    write = record_writer(OutputFormat.KCAT, template="%t/%p %k:%s\\n")
    assert write(RECORD) == b"t/3 k:v\n"
    with pytest.raises(ValueError, match="--format kcat needs --template"):
        record_writer(OutputFormat.KCAT)
