"""Backups of a broker that moves partitions between its log directories meanwhile."""

from collections.abc import Callable
from pathlib import Path

import pytest

from logcheck.file_name import MOVED_HERE
from ottla.cli.backup.copying import copy_directory
from ottla.cli.backup.manifest import BackedUpDirectory
from ottla.cli.backup.moves import Moves

SEGMENT = "00000000000000000000.log"
UNIQUE = "0123456789abcdef0123456789abcdef"


def log_dir(path: Path, *partitions: str, broker_id: int = 1) -> Path:
    path.mkdir()
    (path / "meta.properties").write_text(f"version=0\nbroker.id={broker_id}\ncluster.id=c\n")
    for name in partitions:
        (path / name).mkdir()
        (path / name / SEGMENT).write_bytes(name[:1].encode())
    return path


def end_move(partition: str, source: Path, target: Path) -> None:
    """Rename as a broker does at the end of a move; the mark is gone when the source is."""
    (target / f"{partition}.{UNIQUE}-future").rename(target / partition)
    (source / partition).rename(source / f"{partition}.{UNIQUE}-delete")


def back_up(
    sources: list[Path], target: Path, meanwhile: Callable[[], None]
) -> list[BackedUpDirectory]:
    """Copy the sources; call `meanwhile` once the first partition is copied."""
    left: list[Callable[[], None]] = [meanwhile]

    def on_progress(_: int) -> None:
        if left and any(target.glob(f"1/*/{SEGMENT}")):
            left.pop()()

    target.mkdir()
    moves = Moves(sources)
    copied = [
        copy_directory(source, target, str(number), on_progress, moves)
        for number, source in enumerate(sources, start=1)
    ]
    assert not left, "the move took place"
    return copied


def copies_of(partition: str, copied: list[BackedUpDirectory]) -> dict[str, set[str]]:
    """Return by folder the names of the copied files of a partition."""
    found: dict[str, set[str]] = {}
    for directory in copied:
        for file in directory.files:
            folder, _, name = file.path.rpartition("/")
            if folder == partition:
                found.setdefault(directory.folder, set()).add(name)
    return found


def test_a_partition_that_moves_to_a_copied_directory_is_in_the_backup(tmp_path: Path) -> None:
    one = log_dir(tmp_path / "one", "a-0", f"moving-0.{UNIQUE}-future")
    two = log_dir(tmp_path / "two", "b-0", "moving-0")
    copied = back_up([one, two], tmp_path / "saved", lambda: end_move("moving-0", two, one))
    assert copies_of("moving-0", copied) == {"2": {SEGMENT}}
    assert (tmp_path / "saved" / "2" / "moving-0" / SEGMENT).read_bytes() == b"m"
    assert copies_of("b-0", copied) == {"2": {SEGMENT}}


def test_of_two_copies_of_a_moved_partition_the_newer_one_is_marked(tmp_path: Path) -> None:
    """A broker does not start if a partition lies in two log directories without the mark."""
    one = log_dir(tmp_path / "one", "moving-0")
    two = log_dir(tmp_path / "two", f"moving-0.{UNIQUE}-future")
    copied = back_up([one, two], tmp_path / "saved", lambda: end_move("moving-0", one, two))
    assert copies_of("moving-0", copied) == {"1": {SEGMENT}, "2": {SEGMENT, MOVED_HERE}}
    assert (tmp_path / "saved" / "2" / "moving-0" / MOVED_HERE).read_text() == "1"


@pytest.mark.parametrize(
    ("second", "third", "expected"),
    [("", "", ("1", "2")), ("1700000000000", "5", ("1700000000000", "1700000000001"))],
)
def test_of_three_copies_of_a_moved_partition_the_last_one_has_the_latest_mark(
    tmp_path: Path, second: str, third: str, expected: tuple[str, str]
) -> None:
    """A broker starts on the copy with the latest mark, and sets the others aside."""
    one = log_dir(tmp_path / "one", "moving-0")
    two, three = (
        log_dir(tmp_path / name, f"moving-0.{UNIQUE}-future") for name in ("two", "three")
    )
    saved = tmp_path / "saved"
    saved.mkdir()
    moves = Moves([one, two, three])
    copied = [copy_directory(one, saved, "1", lambda _: None, moves)]
    for number, (source, target, mark) in enumerate(((one, two, second), (two, three, third)), 2):
        end_move("moving-0", source, target)
        if mark:
            (target / "moving-0" / MOVED_HERE).write_text(mark)
        copied.append(copy_directory(target, saved, str(number), lambda _: None, moves))
    marked = {SEGMENT, MOVED_HERE}
    assert copies_of("moving-0", copied) == {"1": {SEGMENT}, "2": marked, "3": marked}
    marks = tuple((saved / name / "moving-0" / MOVED_HERE).read_text() for name in ("2", "3"))
    assert marks == expected


def test_the_original_of_a_move_that_is_about_to_end_gets_no_mark(tmp_path: Path) -> None:
    one, two = (log_dir(tmp_path / name, "moving-0") for name in ("one", "two"))
    (one / "moving-0" / MOVED_HERE).write_text("")
    saved = tmp_path / "saved"
    saved.mkdir()
    moves = Moves([one, two])
    copied = [
        copy_directory(source, saved, source.name, lambda _: None, moves) for source in (one, two)
    ]
    assert copies_of("moving-0", copied) == {"one": {SEGMENT, MOVED_HERE}, "two": {SEGMENT}}


def test_a_partition_that_moves_to_a_later_directory_is_copied_once(tmp_path: Path) -> None:
    one = log_dir(tmp_path / "one", "a-0", "moving-0")
    two = log_dir(tmp_path / "two", f"moving-0.{UNIQUE}-future")
    copied = back_up([one, two], tmp_path / "saved", lambda: end_move("moving-0", one, two))
    assert copies_of("moving-0", copied) == {"2": {SEGMENT}}


@pytest.mark.parametrize("is_deleted", [False, True])
def test_replicas_of_two_brokers_are_two_copies(tmp_path: Path, is_deleted: bool) -> None:
    one = log_dir(tmp_path / "one", "a-0")
    two = log_dir(tmp_path / "two", "a-0", broker_id=2)

    def delete() -> None:
        if is_deleted:
            (two / "a-0").rename(two / f"a-0.{UNIQUE}-delete")

    copied = back_up([one, two], tmp_path / "saved", delete)
    expected = {"1": {SEGMENT}} if is_deleted else {"1": {SEGMENT}, "2": {SEGMENT}}
    assert copies_of("a-0", copied) == expected
