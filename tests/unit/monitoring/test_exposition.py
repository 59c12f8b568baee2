"""Prometheus' text format: `monitoring.exposition`."""

from math import nan

import pytest
from prometheus_client.parser import text_string_to_metric_families

from monitoring.exposition import (
    COUNTER,
    MAX_LABEL_LENGTH,
    PIECE_LINES,
    Family,
    label_value,
    value_text,
)

SIZE = Family(name="size", kind=COUNTER, meaning="Bytes.", labels=("topic", "partition"))
PLAIN = Family(name="up", kind=COUNTER, meaning="Whether it runs.")
HEAD = "# HELP size Bytes.\n# TYPE size counter\n"


def test_samples_follow_the_head_of_their_family() -> None:
    [text] = SIZE.pieces([(("t", "0"), 7), (("t", "1"), 0.5)])
    assert text == HEAD + 'size{topic="t",partition="0"} 7\nsize{topic="t",partition="1"} 0.5\n'
    [text] = PLAIN.pieces([((), True)])
    assert text.endswith("\nup 1\n")


def test_a_family_without_samples_has_no_text() -> None:
    assert list(SIZE.pieces([])) == []


@pytest.mark.parametrize("count", [PIECE_LINES, PIECE_LINES + 1, 3 * PIECE_LINES])
def test_a_piece_has_a_limited_number_of_lines(count: int) -> None:
    pieces = list(SIZE.pieces(((str(each), "0"), 1) for each in range(count)))
    assert all(piece.removeprefix(HEAD).count("\n") <= PIECE_LINES for piece in pieces)
    text = "".join(pieces)
    assert text.startswith(HEAD)
    assert text.count("\n") == count + 2


def test_names_of_clients_cannot_break_out_of_a_label() -> None:
    [text] = SIZE.pieces([(('a"} 1\nup 1\n\\', "0"), 7)])
    assert text == HEAD + 'size{topic="a\\"} 1\\nup 1\\n\\\\",partition="0"} 7\n'


def test_a_strict_parser_reads_the_names_of_clients_back() -> None:
    names = ['a"b', "a\\nb", "a\nb", "\\", "", "{x=1} 2", "\x1b[2J", "\u202e", "# TYPE"]
    text = "".join(SIZE.pieces(((name, "0"), number) for number, name in enumerate(names)))
    [family] = text_string_to_metric_families(text)
    assert [each.labels["topic"] for each in family.samples] == names
    assert [each.value for each in family.samples] == list(range(len(names)))


def test_long_names_are_cut_and_stay_distinct() -> None:
    first, second = label_value("x" * 999 + "a"), label_value("x" * 999 + "b")
    assert len(first) == len(second) == MAX_LABEL_LENGTH
    assert first != second
    assert label_value("x" * MAX_LABEL_LENGTH) == "x" * MAX_LABEL_LENGTH


def test_a_name_without_an_encoding_gets_a_checksum_too() -> None:
    assert len(label_value("\ud800" * 999)) == MAX_LABEL_LENGTH


def test_numbers_are_as_prometheus_reads_them() -> None:
    assert [value_text(each) for each in (True, 12, 0.1, 1e18, nan)] == [
        "1",
        "12",
        "0.1",
        "1e+18",
        "NaN",
    ]
