"""The lock of a log dir: `storage.directory.directory_lock`."""

from pathlib import Path

import pytest

from storage.directory.directory_lock import lock_directory, lock_usable
from storage.directory.log_directory import LogDirectory
from storage.errors import LogDirLockedError, StorageError


def test_unusable_log_dirs_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    good, bad = tmp_path / "good", tmp_path / "file"
    locks = lock_usable([bad, good, tmp_path / "other" / ".." / "good"])
    assert [path.resolve() for path in locks] == [good]
    with pytest.raises(StorageError, match=r"no log dir can be used: .*File exists"):
        lock_usable([bad])


def test_a_locked_log_dir_leaves_all_others_unlocked(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    held = lock_directory(two)
    with pytest.raises(LogDirLockedError, match="two is in use by another broker"):
        lock_usable([one, two])
    lock_directory(one).release()
    held.release()
    assert set(lock_usable([one, two])) == {one, two}


def test_lock_held_by_the_creator_survives_closing_the_log_dir(tmp_path: Path) -> None:
    lock = lock_directory(tmp_path)
    LogDirectory(tmp_path, is_locked=True).close([], -1)
    with pytest.raises(LogDirLockedError):
        lock_directory(tmp_path)
    lock.release()
    lock_directory(tmp_path).release()
