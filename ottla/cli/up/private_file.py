"""Files that only their owner may read (edge)."""

import os
from pathlib import Path
from typing import Final

from storage.disk.checkpoint import sync_directory

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
TEMPORARY_SUFFIX: Final = ".tmp"


def make_private_folder(path: Path) -> None:
    """Create a folder, or take the rights on an existing one from all other users.

    Raises:
        OSError: it cannot be used; also if `path` is a link or belongs to another user.
    """
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(None, "it belongs to another user", str(path))
        os.fchmod(descriptor, FOLDER_MODE)
    finally:
        os.close(descriptor)


def write_private(path: Path, data: bytes, *, mode: int = FILE_MODE) -> None:
    """Replace the content of `path`, which has `mode` from its beginning, and make it durable.

    Raises:
        OSError: the file holds the old content, or the new one.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    # The leftover of a crash may have other rights.
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    sync_directory(path.parent)


def remove_temporary_files(folder: Path) -> None:
    """Remove the leftovers of writes that a crash interrupted."""
    for path in folder.glob(f"*{TEMPORARY_SUFFIX}"):
        path.unlink()
