"""Checkpoints in Kafka's format are parsed, and violations of the format are reported."""

import pytest

from logcheck.file_name import FileName, parse_file_name
from logcheck.finding import Damage
from ottla.cli.logs.dump import dump_text_file
from ottla.cli.logs.item import FindingItem, RowItem

OFFSETS = "recovery-point-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"


def dump(text: str, file: str) -> tuple[list[RowItem], list[tuple[Damage, int | None]]]:
    name = parse_file_name(file)
    assert isinstance(name, FileName)
    items = list(dump_text_file(text, file, name))
    rows = [item for item in items if isinstance(item, RowItem)]
    findings = [item.finding for item in items if isinstance(item, FindingItem)]
    return rows, [(finding.damage, finding.position) for finding in findings]


def test_dump_of_an_offset_checkpoint_has_an_item_per_line() -> None:
    rows, findings = dump("0\n2\norders 0 17\nmy.topic 3 0\n", OFFSETS)
    assert findings == []
    assert [row.values for row in rows] == [
        {"topic": "orders", "partition": 0, "offset": 17},
        {"topic": "my.topic", "partition": 3, "offset": 0},
    ]


@pytest.mark.parametrize("file", [OFFSETS, EPOCHS])
def test_empty_checkpoint_is_healthy(file: str) -> None:
    assert dump("", file) == ([], [])


def test_dump_of_an_epoch_checkpoint_has_an_item_per_line() -> None:
    rows, findings = dump("0\n2\n0 0\n4 250\n", EPOCHS)
    assert findings == []
    assert [row.values for row in rows] == [
        {"leader_epoch": 0, "start_offset": 0},
        {"leader_epoch": 4, "start_offset": 250},
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("\n", [(Damage.BAD_CHECKPOINT_LINE, 1)], id="an empty line"),
        pytest.param("1\n0\n", [(Damage.BAD_CHECKPOINT_LINE, 1)], id="a future version"),
        pytest.param("0\n", [(Damage.BAD_CHECKPOINT_LINE, 2)], id="no count"),
        pytest.param("0\n2\na 0 1\n", [(Damage.BAD_CHECKPOINT_LINE, 2)], id="a line is missing"),
        pytest.param(
            "0\n1\na 0 1\nb 0 1\n", [(Damage.BAD_CHECKPOINT_LINE, 2)], id="a line too many"
        ),
        pytest.param("0\n1\na 0\n", [(Damage.BAD_CHECKPOINT_LINE, 3)], id="two fields"),
        pytest.param("0\n1\na 0 -1\n", [(Damage.BAD_CHECKPOINT_LINE, 3)], id="a negative offset"),
        pytest.param("0\n2\na 0 1\na x 1\n", [(Damage.BAD_CHECKPOINT_LINE, 4)], id="no partition"),
        pytest.param("0\n2\na 0 1\na 0 2\n", [(Damage.BAD_CHECKPOINT_LINE, 4)], id="twice"),
    ],
)
def test_damage_to_an_offset_checkpoint_is_reported_by_line(
    text: str, expected: list[tuple[Damage, int]]
) -> None:
    assert dump(text, OFFSETS)[1] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0\n1\n0 0 0\n", [(Damage.BAD_CHECKPOINT_LINE, 3)], id="three fields"),
        pytest.param("0\n1\nx 0\n", [(Damage.BAD_CHECKPOINT_LINE, 3)], id="no number"),
        pytest.param("0\n2\n3 5\n3 9\n", [(Damage.BAD_CHECKPOINT_LINE, 4)], id="same epoch twice"),
        pytest.param("0\n2\n3 5\n4 2\n", [(Damage.BAD_CHECKPOINT_LINE, 4)], id="offset goes back"),
    ],
)
def test_damage_to_an_epoch_checkpoint_is_reported_by_line(
    text: str, expected: list[tuple[Damage, int]]
) -> None:
    assert dump(text, EPOCHS)[1] == expected


@pytest.mark.parametrize("file", ["meta.properties", "partition.metadata"])
def test_properties_are_parsed_in_both_of_kafkas_notations(file: str) -> None:
    rows, findings = dump("# a comment\n\nversion: 0\nbroker.id=3\n", file)
    assert findings == []
    assert [row.values for row in rows] == [
        {"key": "version", "value": "0"},
        {"key": "broker.id", "value": "3"},
    ]
    assert dump("version 0\n", file)[1] == [(Damage.BAD_PROPERTY, 1)]


@pytest.mark.parametrize("name", ["00000000000000000000.other", "notes.txt", ".lock", "log"])
def test_other_file_names_are_not_recognised(name: str) -> None:
    assert parse_file_name(name) is None


@pytest.mark.parametrize("suffix", ["", ".deleted", ".cleaned", ".swap"])
def test_segment_with_a_suffix_is_still_a_segment(suffix: str) -> None:
    name = parse_file_name(f"00000000000000000042.log{suffix}")
    assert name is not None
    assert (name.base_offset, name.is_well_formed) == (42, True)
