"""Log lines about the progress of loading a log dir (edge).

Loading after a crash reads every byte above the recovery points, which can take minutes. Operators
need to see the progress and the remaining time.
"""

import time
from pathlib import Path
from threading import Lock
from typing import Final

import structlog

REPORT_INTERVAL_S: Final = 5.0

log = structlog.get_logger(__name__)


class LoadProgress:
    """Counter of the loaded logs of one log dir; any thread may update it."""

    def __init__(self, path: Path, log_count: int, *, was_clean: bool) -> None:
        self._path = path
        self._log_count = log_count
        self._loaded_count = 0
        self._lock = Lock()
        self._began_s = self._reported_s = time.monotonic()
        log.info(
            "log_dir.loading",
            path=str(path),
            log_count=log_count,
            needs_recovery=log_count > 0 and not was_clean,
        )

    def on_loaded(self) -> None:
        """Count one log, and report the progress unless that happened a moment ago."""
        with self._lock:
            self._loaded_count += 1
            now_s = time.monotonic()
            if now_s - self._reported_s >= REPORT_INTERVAL_S:
                self._reported_s = now_s
                self._report("log_dir.load_advanced")

    def on_end(self) -> None:
        """Report that all logs have been loaded."""
        self._report("log_dir.loaded")

    def _report(self, event: str) -> None:
        log.info(
            event,
            path=str(self._path),
            loaded_count=self._loaded_count,
            log_count=self._log_count,
            duration_ms=round((time.monotonic() - self._began_s) * 1000),
        )
