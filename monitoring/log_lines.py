"""The stream of a daemon's log (edge)."""

from contextlib import suppress
from typing import TextIO, cast


def log_lines(stream: TextIO) -> TextIO:
    """Return a stream that writes to `stream`, and drops text that cannot be written.

    The reader of a pipe may have ended, or the disk of the log may be full. Most lines are written
    amid other work, where an OSError would be taken for a failure of that work.
    """
    return cast(TextIO, _LogLines(stream))


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
