"""Format strings of kcat write records as kcat does."""

import pytest

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import TimestampType
from ottla.cli.kcat_format import parse_format, write_parts
from ottla.client.record import ConsumerRecord

RECORD = ConsumerRecord(
    topic="t",
    partition=3,
    offset=Offset(7),
    timestamp_ms=42,
    key=b"k\xff",
    value=b"va",
    headers=(("a", b"1"), ("b", None)),
    timestamp_type=TimestampType.CREATE_TIME,
    leader_epoch=LeaderEpoch(0),
)
EMPTY = RECORD._replace(key=None, value=None, headers=())


@pytest.mark.parametrize(
    ("text", "expected", "expected_empty"),
    [
        ("%t/%p@%o %T\\n", b"t/3@7 42\n", b"t/3@7 42\n"),
        ("%k=%s", b"k\xff=va", b"="),
        ("%K %S", b"2 2", b"-1 -1"),
        ("%h|", b"a=1,b=NULL|", b"|"),
        ("100%% \\t\\r\\\\\\x00\\x7", b"100% \t\r\\\x00\x07", b"100% \t\r\\\x00\x07"),
        ("Grüße\n", "Grüße\n".encode(), "Grüße\n".encode()),
        ("", b"", b""),
    ],
)
def test_a_format_string_is_filled_in(text: str, expected: bytes, expected_empty: bytes) -> None:
    parts = parse_format(text)
    assert write_parts(parts, RECORD) == expected
    assert write_parts(parts, EMPTY) == expected_empty


def test_a_topic_of_a_hostile_broker_controls_no_terminal() -> None:
    assert write_parts(parse_format("%t"), RECORD._replace(topic="\x1b[2J")) == b"\\x1b[2J"


@pytest.mark.parametrize("text", ["%q", "%", "\\q", "\\", "\\x", "%\n"])
def test_an_unknown_token_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the format has"):
        parse_format(text)
