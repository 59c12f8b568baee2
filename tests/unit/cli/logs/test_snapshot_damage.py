"""Producer snapshots are dumped entry by entry, and damage to them is reported."""

import pytest

from logcheck.file_name import FileName, parse_file_name
from logcheck.finding import Damage
from ottla.cli.logs.dump import dump_snapshot
from ottla.cli.logs.item import FindingItem, RowItem
from tests.unit.storage.producers.test_producer_snapshot import EMPTY, GOLDEN

FILE = "00000000000000001060.snapshot"


def dump(data: bytes, file: str = FILE) -> tuple[list[RowItem], list[tuple[Damage, int | None]]]:
    name = parse_file_name(file)
    assert isinstance(name, FileName)
    items = list(dump_snapshot(data, file, name))
    rows = [item for item in items if isinstance(item, RowItem)]
    findings = [item.finding for item in items if isinstance(item, FindingItem)]
    return rows, [(finding.damage, finding.position) for finding in findings]


def test_dump_of_a_snapshot_has_an_item_per_producer() -> None:
    rows, findings = dump(GOLDEN)
    assert findings == []
    assert [row.values["producer_id"] for row in rows] == [1000, 1001, 1002]
    assert rows[0].to_line() == (
        "  producer_id 1000, producer_epoch 3, last_sequence 51, last_offset 1051, offset_delta 9, "
        "timestamp_ms 1700000000001, coordinator_epoch -1, transaction_first_offset -1"
    )
    assert dump(EMPTY) == ([], [])


@pytest.mark.parametrize(
    ("data", "rows", "expected"),
    [
        pytest.param(b"", 0, [(Damage.BAD_SNAPSHOT, 0)], id="empty"),
        pytest.param(b"\0\2" + EMPTY[2:], 0, [(Damage.BAD_SNAPSHOT, 0)], id="version 2"),
        pytest.param(GOLDEN[:-1], 2, [(Damage.BAD_SNAPSHOT, 2)], id="cut short"),
        pytest.param(GOLDEN[:-1] + b"\0", 3, [(Damage.BAD_SNAPSHOT, 2)], id="changed"),
    ],
)
def test_damage_to_a_snapshot_is_reported(
    data: bytes, rows: int, expected: list[tuple[Damage, int]]
) -> None:
    found, findings = dump(data)
    assert (len(found), findings) == (rows, expected)


def test_snapshot_with_a_malformed_name_is_reported() -> None:
    assert dump(EMPTY, "some.snapshot")[1] == [(Damage.FOREIGN_FILE, 0)]
