"""Copies log directories into a backup (edge).

The directory may be in use. The files of a partition are opened together, between two listings that
agree, and then read from these descriptors up to the sizes that they had. Files that the broker
renames or deletes meanwhile stay readable: the copy is the partition's state at that time, as after
a crash.
Checkpoints are copied before the partitions, so that they claim nothing that the copy lacks.
The log of a coordinator is copied from its end to its start: a batch is written after the one
before it, so the copy has all batches up to one, and perhaps a part of the next.
"""

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from logcheck.file_name import MOVED_HERE
from ottla.cli.backup.manifest import BackedUpDirectory, BackedUpFile
from ottla.cli.backup.moves import META_PROPERTIES, Moves
from ottla.cli.backup.selection import (
    COORDINATOR,
    chosen_files,
    is_coordinator,
    is_coordinator_log,
    is_top_file,
)
from ottla.cli.backup.writing import new_file, sync_directory
from ottla.cli.failure import CommandError
from speedups.file_limit import raise_file_limit

PIECE_BYTES: Final = 1024 * 1024
PAGE_BYTES: Final = 4096
"""Size of the pieces of a coordinator's log: a longer read may see two batches, but not the one
between them."""
MAX_ATTEMPTS: Final = 100
"""Listings of one partition; each attempt takes milliseconds, and a cleaner renames for less."""
LOCKS: Final = (".lock", "lock")

Progress = Callable[[int], None]


def copy_directory(
    source: Path, target: Path, folder: str, on_progress: Progress, moves: Moves
) -> BackedUpDirectory:
    """Copy a log directory, or a coordinator's, to the new directory `target / folder`.

    Raises:
        CommandError: it is neither, or its files change too often.
        OSError: a file cannot be read or written.
    """
    raise_file_limit()
    place = target / folder
    place.mkdir()
    files: list[BackedUpFile] = []
    with _claimed(source) as is_in_use:
        entries = list(os.scandir(source))
        if is_coordinator(entry.name for entry in entries):
            files += _copy_part([source], place, "", on_progress, is_in_use=is_in_use)
        else:
            if not any(entry.name == META_PROPERTIES for entry in entries):
                raise CommandError(
                    f"{source} is neither a log directory nor a coordinator's: it has neither "
                    "meta.properties nor store"
                )
            names = sorted(entry.name for entry in entries)
            for name in names:
                if is_top_file(name, has_coordinator=COORDINATOR in names):
                    with contextlib.suppress(FileNotFoundError), opened(source / name) as file:
                        files.append(_copy(file, place / name, name, on_progress))
            files += _copy_parts(source, place, on_progress, moves, is_in_use=is_in_use)
    sync_directory(place)
    return BackedUpDirectory(
        source=str(source.absolute()),
        folder=folder,
        was_in_use=is_in_use,
        files=tuple(files),
    )


def size_of(source: Path) -> int:
    """Return about how many bytes there are to copy."""
    found = 0
    for folder, _, names in os.walk(source):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - many
    return found


def in_order(sources: Iterable[Path]) -> list[Path]:
    """Return directories in the order in which to copy them: coordinators last."""
    return sorted(
        sources, key=lambda each: ((each / "store").exists(), (each / COORDINATOR).exists())
    )


def _copy_parts(
    source: Path, target: Path, on_progress: Progress, moves: Moves, *, is_in_use: bool
) -> list[BackedUpFile]:
    """Copy the partitions in a log directory, and the data of a coordinator in it."""
    files: list[BackedUpFile] = []
    for name in moves.list_parts(source):
        (target / name).mkdir()
        places, prefix = moves.places_of(source, name), f"{name}/"
        copied = _copy_part(places, target / name, prefix, on_progress, is_in_use=is_in_use)
        if copied:
            mark = prefix + MOVED_HERE
            own_ms = _mark_ms(target / mark)
            wanted_ms = moves.mark_of(source, name, own_ms)
            if wanted_ms != own_ms:
                copied = [each for each in copied if each.path != mark]
                copied.append(_write_mark(target, mark, wanted_ms))
        files += copied
    return files


def _mark_ms(mark: Path) -> int:
    """Return the time in the mark of a moved partition; 0 without a mark."""
    try:
        return int(mark.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    except ValueError:
        # Of an earlier release, whose marks were empty.
        return 1


def _write_mark(target: Path, name: str, at_ms: int) -> BackedUpFile:
    text = str(at_ms).encode()
    (target / name).unlink(missing_ok=True)
    with new_file(target / name) as mark:
        mark.write(text)
    sync_directory((target / name).parent)
    return BackedUpFile(path=name, size_bytes=len(text), sha256=hashlib.sha256(text).hexdigest())


def _copy_part(
    sources: Sequence[Path], target: Path, prefix: str, on_progress: Progress, *, is_in_use: bool
) -> list[BackedUpFile]:
    """Copy a partition or a coordinator's data; nothing if it is deleted meanwhile."""
    with contextlib.ExitStack() as open_files:
        files = _open_first(sources, open_files, is_in_use=is_in_use)
        if files is None:
            target.rmdir()
            return []
        copied = []
        for name, file in files.items():
            copy = _copy_backwards if is_coordinator_log(name) else _copy
            copied.append(copy(file, target / name, prefix + name, on_progress))
        sync_directory(target)
        return copied


def _open_first(
    sources: Iterable[Path], open_files: contextlib.ExitStack, *, is_in_use: bool
) -> dict[str, BinaryIO] | None:
    """Open the files of the first directory that is there; None if none is."""
    for source in sources:
        with contextlib.suppress(FileNotFoundError):
            return _open_together(source, open_files, is_in_use=is_in_use)
    return None


def _open_together(
    source: Path, open_files: contextlib.ExitStack, *, is_in_use: bool
) -> dict[str, BinaryIO]:
    """Open the files of a directory as they were at one time."""
    for _ in range(MAX_ATTEMPTS):
        before = _inodes(source)
        names = chosen_files(before, is_in_use=is_in_use)
        with contextlib.ExitStack() as attempt:
            try:
                files = {name: attempt.enter_context(opened(source / name)) for name in names}
            except FileNotFoundError:
                # Renamed or deleted since the listing; if the directory is gone, the next fails.
                continue
            after = _inodes(source)
            if all(after.get(name) == before[name] for name in names):
                open_files.push(attempt.pop_all())
                return files
    raise CommandError(f"the files of {source} change too often: try again later")


def _inodes(directory: Path) -> dict[str, int]:
    return {
        entry.name: entry.inode()
        for entry in os.scandir(directory)
        if entry.is_file(follow_symlinks=False)
    }


def opened(path: Path) -> BinaryIO:
    """Open a file, which may be something else, but no link.

    Raises:
        OSError: it is missing, a link, or cannot be opened.
    """
    # Without O_NONBLOCK, a pipe in place of the file would wait for its writer forever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(descriptor, "rb", buffering=0)


def _copy(file: BinaryIO, target: Path, name: str, on_progress: Progress) -> BackedUpFile:
    size_bytes = left = _size_of(file, name)
    digest = hashlib.sha256()
    with new_file(target) as copy:
        while left:
            piece = file.read(min(PIECE_BYTES, left))
            if not piece:
                # A follower has truncated its log.
                break
            digest.update(piece)
            copy.write(piece)
            left -= len(piece)
            on_progress(len(piece))
    return BackedUpFile(path=name, size_bytes=size_bytes - left, sha256=digest.hexdigest())


def _copy_backwards(file: BinaryIO, target: Path, name: str, on_progress: Progress) -> BackedUpFile:
    with new_file(target) as copy:
        for start in reversed(range(0, _size_of(file, name), PAGE_BYTES)):
            piece = os.pread(file.fileno(), PAGE_BYTES, start)
            copy.seek(start)
            copy.write(piece)
            on_progress(len(piece))
    with target.open("rb") as copied:
        digest = hashlib.file_digest(copied, "sha256")
    return BackedUpFile(path=name, size_bytes=target.stat().st_size, sha256=digest.hexdigest())


def _size_of(file: BinaryIO, name: str) -> int:
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise CommandError(f"{name} is not a regular file")
    return found.st_size


@contextlib.contextmanager
def _claimed(directory: Path) -> Iterator[bool]:
    """Keep brokers from starting on a directory; yield whether one runs on it already."""
    with contextlib.ExitStack() as locks:
        is_in_use = False
        for name in LOCKS:
            with contextlib.suppress(FileNotFoundError):
                lock = locks.enter_context((directory / name).open("r+b"))
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    is_in_use = True
        yield is_in_use
