"""Writes files that survive a loss of power (edge)."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Create a file that only this user can read; it is on the disk when the block ends.

    Raises:
        OSError: it exists, or cannot be written; the error names it.
    """
    with open(path, "xb", opener=_private) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            if error.filename is not None:
                raise
            with contextlib.suppress(OSError):
                file.close()
            raise type(error)(error.errno, error.strerror, str(path)) from error


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
