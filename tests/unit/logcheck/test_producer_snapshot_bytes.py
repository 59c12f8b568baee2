"""Producer snapshots are read entry by entry, and damage to them is reported."""

import pytest

from logcheck.finding import Damage
from logcheck.producer_snapshot_bytes import is_unfinished, read_producer_snapshot
from tests.unit.logcheck.partition_bytes import Reported
from tests.unit.storage.producers.test_producer_snapshot import EMPTY, GOLDEN


@pytest.mark.parametrize(
    ("data", "producer_ids", "expected"),
    [
        pytest.param(GOLDEN, [1000, 1001, 1002], [], id="healthy"),
        pytest.param(EMPTY, [], [], id="no producers"),
        pytest.param(b"", [], [(Damage.BAD_SNAPSHOT, 0)], id="empty"),
        pytest.param(b"\0\2" + EMPTY[2:], [], [(Damage.BAD_SNAPSHOT, 0)], id="version 2"),
        pytest.param(GOLDEN[:-1], [1000, 1001], [(Damage.BAD_SNAPSHOT, 2)], id="cut short"),
        pytest.param(
            GOLDEN[:-1] + b"\0", [1000, 1001, 1002], [(Damage.BAD_SNAPSHOT, 2)], id="changed"
        ),
    ],
)
def test_readable_entries_are_returned_and_damage_is_reported(
    data: bytes, producer_ids: list[int], expected: list[tuple[Damage, int]]
) -> None:
    reported = Reported()
    entries = read_producer_snapshot(data, "file", reported)
    assert [entry.producer_id for _, entry in entries] == producer_ids
    assert [(each.damage, each.position) for each in reported.findings] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", True, id="created, not written"),
        pytest.param(GOLDEN[:8], True, id="cut in the header"),
        pytest.param(GOLDEN[:-1], True, id="cut in an entry"),
        pytest.param(bytes(len(GOLDEN)), True, id="zeros, after a loss of power"),
        pytest.param(GOLDEN, False, id="whole"),
        pytest.param(GOLDEN[:-1] + b"\0", False, id="changed"),
    ],
)
def test_only_an_unfinished_write_is_cut_or_zeros(data: bytes, expected: bool) -> None:
    assert is_unfinished(data) is expected
