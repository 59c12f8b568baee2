"""The format of checkpoint files, and malformed ones."""

from pathlib import Path

import pytest

from kafkawire.ids import Offset, TopicId, TopicPartition
from storage.disk.checkpoint import (
    overwrite_entries,
    read_entries,
    read_offsets,
    read_offsets_or_none,
    write_entries,
    write_offsets,
)
from storage.errors import CorruptCheckpointError
from storage.log.epoch_checkpoint import read_epochs
from storage.log.partition_metadata import read_topic_id, write_topic_id


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def test_offset_checkpoint_round_trips(path: Path) -> None:
    offsets = {TopicPartition("b", 2): Offset(3), TopicPartition("a.x-1", 0): Offset(2**62)}
    write_offsets(path, offsets)
    assert path.read_text() == f"0\n2\na.x-1 0 {2**62}\nb 2 3\n"
    assert read_offsets(path) == offsets
    write_offsets(path, {})
    assert path.read_text() == "0\n0\n"
    assert read_offsets(path) == {}


def test_an_empty_file_has_no_entries(path: Path) -> None:
    path.touch()
    assert read_entries(path) == []


@pytest.mark.parametrize(
    "content",
    [
        b"0\n",
        b"1\n0\n",
        b"x\n0\n",
        b"0\nx\n",
        b"0\n2\na 0 1\n",
        b"0\n0\na 0 1\n",
        b"0\n1\n\xff 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na x 1\n",
        b"0\n1\na 0 1 2\n",
        b"0\n1\na 0 1",
    ],
)
def test_malformed_checkpoint_is_refused_or_ignored(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match="checkpoint"):
        read_offsets(path)
    assert read_offsets_or_none(path) == {}
    assert read_epochs(path).entries == ()


def test_missing_checkpoint_raises_file_not_found(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_offsets(path)
    assert read_offsets_or_none(path) == {}
    assert read_epochs(path).entries == ()
    assert read_topic_id(path) is None


def test_no_temporary_file_is_left(path: Path) -> None:
    write_entries(path, ["x"])
    assert [each.name for each in path.parent.iterdir()] == ["checkpoint"]


def test_an_overwritten_checkpoint_has_the_new_entries_only(path: Path) -> None:
    for lines in (["1 0"], ["1 0", "2 5"], ["3 0"], []):
        overwrite_entries(str(path), lines)
        assert read_entries(path) == [line.split() for line in lines]


def test_an_overwrite_that_a_power_loss_cut_short_is_rejected_or_leaves_the_old_entries(
    path: Path,
) -> None:
    old, new = b"0\n2\n1 0\n2 57\n", b"0\n3\n1 0\n2 57\n4 1234\n"
    accepted = set()
    for written in range(len(new) + 1):
        mixture = new[:written] + old[written:]
        for size in range(len(old), len(new) + 1):
            content = mixture.ljust(size, b"\0")[:size]
            path.write_bytes(content)
            try:
                read_entries(path)
            except CorruptCheckpointError:
                continue
            if read_epochs(path).entries:
                accepted.add(content)
    assert accepted == {old, new}


def test_topic_id_round_trips(path: Path) -> None:
    write_topic_id(path, TopicId(int=12345))
    assert path.read_text().splitlines()[0] == "version: 0"
    assert not path.read_text().endswith("\n")
    assert read_topic_id(path) == TopicId(int=12345)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "version: 0\n",
        "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAABw",
        "version: 0\ntopic_id: short",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "topic_id: AAAAAAAAAAAAAAAAAAAABw",
    ],
)
def test_damaged_topic_id_is_not_treated_as_absent(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(CorruptCheckpointError):
        read_topic_id(path)
