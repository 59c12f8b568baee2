"""Restorations that are undone."""

import hashlib
from pathlib import Path

import pytest

from ottla.cli.backup.manifest import BackedUpDirectory, BackedUpFile, Manifest
from ottla.cli.backup.restoring import INCOMPLETE, restore_directories
from ottla.cli.failure import CommandError

CONTENTS = {"meta.properties": b"version=0\n", "orders-0/00000000000000000000.log": b"batches"}


def back_up(place: Path) -> BackedUpDirectory:
    """Write the folder of a log directory in a backup."""
    files = []
    for name, content in CONTENTS.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        files.append(BackedUpFile(path=name, size_bytes=len(content), sha256=digest))
    return BackedUpDirectory(
        source="/data", folder=place.name, was_in_use=False, files=tuple(files)
    )


def test_no_broker_starts_on_a_directory_while_its_restoration_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command may be killed between two removals."""
    saved, one, two = (tmp_path / name for name in ("saved", "one", "two"))
    directories = tuple(back_up(saved / folder) for folder in ("1", "2"))
    manifest = Manifest(began="", ended="", directories=directories)
    (saved / "2" / "orders-0" / "00000000000000000000.log").write_bytes(b"other")
    metas, unlink = list[bytes](), Path.unlink

    def look_and_unlink(path: Path, missing_ok: bool = False) -> None:
        metas.append((one / "meta.properties").read_bytes())
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", look_and_unlink)
    with pytest.raises(CommandError, match="has changed since the backup"):
        restore_directories(saved, manifest, [one, two], lambda _: None)
    assert set(metas) == {INCOMPLETE}
    assert not any(one.iterdir())


def test_restored_directories_have_their_files(tmp_path: Path) -> None:
    saved, one, two = (tmp_path / name for name in ("saved", "one", "two"))
    directories = tuple(back_up(saved / folder) for folder in ("1", "2"))
    manifest = Manifest(began="", ended="", directories=directories)
    restore_directories(saved, manifest, [one, two], lambda _: None)
    for target in (one, two):
        found = {path for path in target.rglob("*") if path.is_file()}
        assert found == {target / name for name in CONTENTS}
        assert all((target / name).read_bytes() == CONTENTS[name] for name in CONTENTS)
