"""Checks a backup, and copies it to empty directories (edge).

A broker that started on an incomplete copy would lack records, and serve. Until the copies of all
directories are complete, `meta.properties` therefore has a version that no broker accepts, also
while the copies are removed again because a file differs. The `store` of a coordinator is copied
last: no coordinator starts on other files without it.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from ottla.cli.backup.copying import PIECE_BYTES, Progress, opened
from ottla.cli.backup.manifest import (
    FILE_NAME,
    MAX_MANIFEST_BYTES,
    BackedUpFile,
    Manifest,
    ManifestError,
    read_manifest,
)
from ottla.cli.backup.writing import new_file, sync_directory
from ottla.cli.failure import EXIT_FOUND, CommandError

IGNORED: Final = frozenset({"lost+found"})
"""Names that an empty file system may have."""
META_PROPERTIES: Final = "meta.properties"
RESTORED: Final = META_PROPERTIES + ".tmp"
STORE: Final = "store"
INCOMPLETE: Final = (
    b"version=none, as ottla restore was interrupted: empty the directory and restore again\n"
)


def open_backup(backup: Path) -> Manifest:
    """Return the manifest of a backup.

    Raises:
        CommandError: there is none, or it is damaged.
    """
    path = backup / FILE_NAME
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise CommandError(f"{path} is larger than {MAX_MANIFEST_BYTES} bytes")
        return read_manifest(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandError(f"{backup} is no complete backup: it has no {FILE_NAME}") from None
    except (ManifestError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be used: {error}") from None


def check_backup(backup: Path, manifest: Manifest, on_progress: Progress) -> None:
    """Compare every file of a backup with its manifest.

    Raises:
        CommandError: a file is missing or differs; the exit code is that of a finding.
    """
    for directory in manifest.directories:
        for file in directory.files:
            _transfer(backup / directory.folder / file.path, file, None, on_progress)


def restore_directories(
    backup: Path, manifest: Manifest, targets: Sequence[Path], on_progress: Progress
) -> None:
    """Copy each directory of a backup to its target, which must be empty or missing.

    If a file differs from the manifest, the files that were copied are removed again.

    Raises:
        CommandError: a target has files, or a file of the backup is missing or differs.
        OSError: a file cannot be read or written.
    """
    for target in targets:
        if target.exists() and {each.name for each in target.iterdir()} - IGNORED:
            raise CommandError(f"{target} is not empty: restore to another directory with --to")
    with contextlib.ExitStack() as undo:
        for directory, target in zip(manifest.directories, targets, strict=True):
            target.mkdir(parents=True, exist_ok=True)
            _restore(backup / directory.folder, directory.files, target, undo, on_progress)
        undo.pop_all()
    for target in targets:
        _complete(target)


def _restore(
    source: Path,
    files: Sequence[BackedUpFile],
    target: Path,
    undo: contextlib.ExitStack,
    on_progress: Progress,
) -> None:
    owner = target / META_PROPERTIES
    metas = [file for file in files if file.path == META_PROPERTIES]
    if metas:
        undo.callback(owner.unlink, missing_ok=True)
        with new_file(owner) as mark:
            mark.write(INCOMPLETE)
        sync_directory(target)
    for file in sorted(files, key=lambda each: each.path == STORE):
        if file not in metas:
            path = target / file.path
            if not path.parent.exists():
                path.parent.mkdir()
                undo.callback(path.parent.rmdir)
            undo.callback(path.unlink, missing_ok=True)
            _transfer(source / file.path, file, path, on_progress)
    for folder in {target, *((target / file.path).parent for file in files)}:
        sync_directory(folder)
    for meta in metas:
        restored = target / RESTORED
        undo.callback(restored.unlink, missing_ok=True)
        _transfer(source / META_PROPERTIES, meta, restored, on_progress)


def _complete(target: Path) -> None:
    """Let brokers start on a log directory. Nothing is undone from here on."""
    restored = target / RESTORED
    if restored.exists():
        restored.replace(target / META_PROPERTIES)
        sync_directory(target)


def _transfer(source: Path, file: BackedUpFile, target: Path | None, on_progress: Progress) -> None:
    """Read a file of the backup and check it, and copy it if there is a target."""
    digest, size_bytes = hashlib.sha256(), 0
    with contextlib.ExitStack() as files:
        content = files.enter_context(_opened(source))
        copy = None if target is None else files.enter_context(new_file(target))
        # One byte too many shows that the file is longer, however long it is.
        while piece := content.read(min(PIECE_BYTES, file.size_bytes + 1 - size_bytes)):
            digest.update(piece)
            size_bytes += len(piece)
            on_progress(len(piece))
            if copy is not None:
                copy.write(piece)
    if (size_bytes, digest.hexdigest()) != (file.size_bytes, file.sha256):
        raise CommandError(
            f"{source} has changed since the backup: {_size_text(size_bytes, file)} instead of "
            f"{file.size_bytes}, or other content",
            EXIT_FOUND,
        )


def _size_text(size_bytes: int, file: BackedUpFile) -> str:
    return "more bytes" if size_bytes > file.size_bytes else f"{size_bytes} bytes"


def _opened(source: Path) -> BinaryIO:
    """Open a file of the backup, which has neither links nor devices.

    Raises:
        CommandError: it is missing, or no regular file.
    """
    try:
        content = opened(source)
    except FileNotFoundError:
        raise CommandError(f"{source} is missing", EXIT_FOUND) from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise CommandError(f"{source} is a link, not a file", EXIT_FOUND) from None
    if not stat.S_ISREG(os.fstat(content.fileno()).st_mode):
        content.close()
        raise CommandError(f"{source} is not a regular file", EXIT_FOUND)
    return content
