"""Ids for idempotent producers: `broker.producer_ids`."""

import json
from pathlib import Path

import pytest

from broker.errors import StartupError
from broker.producer_ids import BLOCK_SIZE, FILE_NAME, ProducerIds
from kafkawire.ids import BrokerId

BROKER = BrokerId(7)


def test_ids_count_up_and_a_restart_begins_a_new_block(tmp_path: Path) -> None:
    ids = ProducerIds(tmp_path, BROKER)
    assert [ids.allocate() for _ in range(3)] == [0, 1, 2]
    assert ProducerIds(tmp_path, BROKER).allocate() == BLOCK_SIZE


def test_a_block_is_on_disk_before_its_first_id_is_given_out(tmp_path: Path) -> None:
    ids = ProducerIds(tmp_path, BROKER)
    assert not (tmp_path / FILE_NAME).exists()
    for _ in range(BLOCK_SIZE + 1):
        last = ids.allocate()
    assert last == BLOCK_SIZE
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {
        "version": 1,
        "broker": 7,
        "block_start": str(BLOCK_SIZE),
        "block_end": str(2 * BLOCK_SIZE - 1),
    }


def test_a_failed_write_uses_no_id_up(tmp_path: Path) -> None:
    directory = tmp_path / "away"
    directory.mkdir()
    ids = ProducerIds(directory, BROKER)
    directory.rmdir()
    with pytest.raises(OSError, match="away"):
        ids.allocate()
    directory.mkdir()
    assert ids.allocate() == 0


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"block_end": "x"}', "5"])
def test_a_damaged_file_stops_the_start(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(StartupError, match="is damaged"):
        ProducerIds(tmp_path, BROKER)
