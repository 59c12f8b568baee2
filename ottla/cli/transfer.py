"""Progress and rate of a long transfer (edge)."""

import sys
import time
from typing import TYPE_CHECKING, Self

from ottla.cli.text import JsonValue, rate_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Transfer:
    """Counts records and bytes; draws a bar on a terminal if the total size is known."""

    def __init__(self, label: str, total_bytes: int | None = None) -> None:
        self.record_count = 0
        self.size_bytes = 0
        self.seconds = 0.0
        self._label = label
        self._total_bytes = total_bytes
        self._started_s = time.perf_counter()
        self._progress: Progress | None = None
        self._bar: TaskID | None = None

    def __enter__(self) -> Self:
        self._started_s = time.perf_counter()
        if self._total_bytes and sys.stderr.isatty():
            self._draw(self._total_bytes)
        return self

    def __exit__(self, *_: object) -> None:
        # Never zero, so that even the smallest transfer has a rate.
        self.seconds = max(time.perf_counter() - self._started_s, 1e-6)
        if self._progress is not None:
            self._progress.stop()

    def _draw(self, total_bytes: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._progress = Progress(
            "{task.description}",
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar = self._progress.add_task(self._label, total=total_bytes)
        self._progress.start()

    def add(self, record_count: int, size_bytes: int) -> None:
        """Count records and their bytes."""
        self.record_count += record_count
        self.size_bytes += size_bytes

    def advance(self, size_bytes: int) -> None:
        """Advance the bar by a number of input bytes."""
        if self._progress is not None and self._bar is not None:
            self._progress.advance(self._bar, size_bytes)

    def to_line(self) -> str:
        """Return volume, duration and rate as one line, after the transfer has ended."""
        return f"{self._label} {rate_text(self.record_count, self.size_bytes, self.seconds)}"

    def to_json(self) -> dict[str, JsonValue]:
        """Return the same values as a JSON object."""
        return {
            "records": self.record_count,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 6),
            "records_per_s": round(self.record_count / self.seconds),
            "bytes_per_s": round(self.size_bytes / self.seconds),
        }
