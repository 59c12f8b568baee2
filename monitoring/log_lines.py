"""The stream of a daemon's log, and standard streams that cannot be written (edge)."""

import atexit
import os
import sys
from contextlib import suppress
from typing import TextIO, cast


def log_lines(stream: TextIO) -> TextIO:
    """Return a stream that writes to `stream`, and drops text that cannot be written.

    The reader of a pipe may have ended, or the disk of the log may be full. Most lines are written
    amid other work, where an OSError would be taken for a failure of that work.
    """
    atexit.register(discard_unwritable)
    return cast(TextIO, _LogLines(stream))


def discard_unwritable() -> None:
    """Put the null device behind the standard streams whose buffer cannot be written.

    Otherwise the interpreter tries it once more at its end, and exits with 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            # It is None if the parent has closed the descriptor.
            if stream is not None and not stream.closed:
                stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


class _LogLines:
    """The methods of a stream that loggers call."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text`, if possible."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if possible."""
        with suppress(OSError):
            self._stream.flush()
