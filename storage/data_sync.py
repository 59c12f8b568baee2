"""Waiting until what was written to a file is on disk (edge)."""

import errno
import os


def sync_data(descriptor: int) -> None:
    """Return when every byte of the file is on disk.

    Raises:
        OSError: with EIO, whatever the system said, as the bytes may be lost: after a failed sync
            they count as clean. Want of space, which passes, is told by writes.
    """
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        raise OSError(errno.EIO, f"not known to be on disk: {error}") from error
