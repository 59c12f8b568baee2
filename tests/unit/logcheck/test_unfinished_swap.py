"""A swap that a broker has not finished hides no segment."""

from contextlib import AbstractContextManager, nullcontext

import pytest

from logcheck.replica_files import Entry
from logcheck.unfinished_swap import finish_swap
from tests.unit.logcheck.partition_bytes import BytesSource, build_batch, join

END = 30
"""The end of the segment that is swapped in at offset 10."""
NEW = join([build_batch(10), build_batch(END - 3)])
OTHERS = ["00000000000000000000.log", "00000000000000000030.log", "leader-epoch-checkpoint"]


def segment(base_offset: int, *ends: str) -> list[str]:
    return [f"{base_offset:020d}.{end}" for end in ends]


def finished(names: list[str], data: bytes | bytearray = NEW) -> dict[str, str]:
    """Return the paths by the names after the swap of a segment that contains `data`."""

    def open_source(_path: str) -> AbstractContextManager[BytesSource]:
        return nullcontext(BytesSource(data))

    entries = [Entry(name, name, is_directory=False, size_bytes=1) for name in names]
    return {each.name: each.path for each in finish_swap(entries, open_source)}


OLD = [*segment(10, "log", "index"), *segment(20, "log", "index")]
SWAPPED = segment(10, "index.swap", "log.swap")
FINAL = {name: name for name in OTHERS} | dict(
    zip(segment(10, "index", "log"), SWAPPED, strict=True)
)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([*OLD, *SWAPPED], id="nothing renamed"),
        pytest.param([*OLD[1:], *SWAPPED], id="one file of the old segment renamed"),
        pytest.param([*OLD[3:], *SWAPPED], id="only an old index left"),
        pytest.param(SWAPPED, id="all old files renamed"),
    ],
)
def test_segment_that_is_swapped_in_replaces_the_old_ones(names: list[str]) -> None:
    assert finished([*OTHERS, *names]) == FINAL


def test_indexes_follow_their_log() -> None:
    names = [*OTHERS, *segment(10, "index.swap", "log")]
    assert finished(names)["00000000000000000010.index"] == "00000000000000000010.index.swap"
    assert finished(names)["00000000000000000010.log"] == "00000000000000000010.log"


def test_segment_without_batches_replaces_the_one_at_its_base_offset() -> None:
    names = [*OTHERS, *OLD, *SWAPPED]
    assert finished(names, b"") == FINAL | {name: name for name in OLD[2:]}


def test_producer_snapshots_stay() -> None:
    snapshots = segment(10, "snapshot") + segment(20, "snapshot")
    assert finished([*OTHERS, *snapshots, *SWAPPED]) == FINAL | {name: name for name in snapshots}


@pytest.mark.parametrize("base_offset", [5, 10])
def test_files_of_a_cleaner_that_did_not_finish_are_ignored(base_offset: int) -> None:
    names = [*OTHERS, *OLD, *SWAPPED, *segment(base_offset, "log.cleaned")]
    assert finished(names) == {name: name for name in names}


def test_unreadable_segment_still_replaces_the_one_at_its_base_offset() -> None:
    def open_source(_path: str) -> AbstractContextManager[BytesSource]:
        raise PermissionError(13, "Permission denied")

    entries = [Entry(name, name, is_directory=False, size_bytes=1) for name in [*OLD, *SWAPPED]]
    names = {each.name: each.path for each in finish_swap(entries, open_source)}
    assert names["00000000000000000010.log"] == "00000000000000000010.log.swap"
    assert "00000000000000000020.log" in names
