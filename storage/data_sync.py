"""Bringing the written bytes of a file to disk (edge)."""

import errno
import os


def sync_data(descriptor: int) -> None:
    """Block until every byte of the file is on disk.

    Raises:
        OSError: always with EIO, regardless of the system's error code. The kernel marks pages
            clean after a failed sync, so the bytes may be lost. A lack of space, which is
            temporary, is reported by writes instead.
    """
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        raise OSError(errno.EIO, f"not known to be on disk: {error}") from error
