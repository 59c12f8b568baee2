"""Checkpoints in Kafka's format are parsed, and violations of the format are reported by line."""

from collections.abc import Callable

import pytest

from kafkawire.ids import TopicPartition
from logcheck.checkpoint_text import read_epoch_checkpoint, read_offset_checkpoint, read_properties
from logcheck.finding import Damage, Report
from tests.unit.logcheck.partition_bytes import Reported

Reader = Callable[[bytes, str, Report], object]
PROPERTIES = b"# a comment\n\nversion: 0\nbroker.id=3\n"


@pytest.mark.parametrize(
    ("reader", "data", "expected"),
    [
        pytest.param(
            read_offset_checkpoint,
            b"0\n2\norders 0 17\nmy.topic 3 0\n",
            {TopicPartition("orders", 0): 17, TopicPartition("my.topic", 3): 0},
            id="offsets",
        ),
        pytest.param(
            read_epoch_checkpoint, b"0\n2\n0 0\n4 250\n", [(3, 0, 0), (4, 4, 250)], id="epochs"
        ),
        pytest.param(
            read_properties, PROPERTIES, {"version": "0", "broker.id": "3"}, id="properties"
        ),
        pytest.param(read_offset_checkpoint, b"", {}, id="no offsets yet"),
        pytest.param(read_epoch_checkpoint, b"", [], id="no epochs yet"),
    ],
)
def test_healthy_file_is_read_without_findings(
    reader: Reader, data: bytes, expected: object
) -> None:
    reported = Reported()
    assert reader(data, "file", reported) == expected
    assert reported.findings == []


@pytest.mark.parametrize(
    ("reader", "data", "line"),
    [
        pytest.param(read_offset_checkpoint, b"\n", 1, id="an empty line"),
        pytest.param(read_offset_checkpoint, b"1\n0\n", 1, id="a future version"),
        pytest.param(read_offset_checkpoint, b"0\n", 2, id="no count"),
        pytest.param(read_offset_checkpoint, b"0\n2\na 0 1\n", 2, id="a line is missing"),
        pytest.param(read_offset_checkpoint, b"0\n1\na 0 1\nb 0 1\n", 2, id="a line too many"),
        pytest.param(read_offset_checkpoint, b"0\n1\na 0\n", 3, id="two fields"),
        pytest.param(read_offset_checkpoint, b"0\n1\na 0 -1\n", 3, id="a negative offset"),
        pytest.param(read_offset_checkpoint, b"0\n2\na 0 1\na x 1\n", 4, id="no partition"),
        pytest.param(read_offset_checkpoint, b"0\n1\na 2147483648 1\n", 3, id="a long partition"),
        pytest.param(
            read_offset_checkpoint, b"0\n1\na 0 9223372036854775808\n", 3, id="a long offset"
        ),
        pytest.param(
            read_offset_checkpoint, b"0\n1\na 0 " + b"1" * 5000 + b"\n", 3, id="an endless offset"
        ),
        pytest.param(read_offset_checkpoint, b"0\n2\na 0 1\na 0 2\n", 4, id="twice"),
        pytest.param(read_epoch_checkpoint, b"0\n1\n0 0 0\n", 3, id="three fields"),
        pytest.param(read_epoch_checkpoint, b"0\n1\nx 0\n", 3, id="no number"),
        pytest.param(read_epoch_checkpoint, b"0\n1\n2147483648 0\n", 3, id="a long epoch"),
        pytest.param(read_epoch_checkpoint, b"0\n2\n3 5\n3 9\n", 4, id="same epoch twice"),
        pytest.param(read_epoch_checkpoint, b"0\n2\n3 5\n4 2\n", 4, id="offset goes back"),
        pytest.param(read_properties, b"version 0\n", 1, id="no separator"),
    ],
)
def test_malformed_line_is_reported_by_its_number(reader: Reader, data: bytes, line: int) -> None:
    reported = Reported()
    reader(data, "file", reported)
    is_property = reader is read_properties
    damage = Damage.BAD_PROPERTY if is_property else Damage.BAD_CHECKPOINT_LINE
    assert [(each.damage, each.position) for each in reported.findings] == [(damage, line)]
