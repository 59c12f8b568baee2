"""How far the loading of a log dir is, told in log lines while it lasts (edge: clock, log lines).

Loading after a crash reads every byte behind the recovery points, which can take minutes: an
operator has to see that it goes on, and how long it will.
"""

import time
from pathlib import Path
from threading import Lock
from typing import Final

import structlog

REPORT_INTERVAL_S: Final = 5.0

log = structlog.get_logger()


class LoadProgress:
    """Counts the logs of one log dir as they are loaded; any thread may do so."""

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
        """Count one log, and say how far we are if nobody did for a while."""
        with self._lock:
            self._loaded_count += 1
            now_s = time.monotonic()
            if now_s - self._reported_s >= REPORT_INTERVAL_S:
                self._reported_s = now_s
                self._report("log_dir.load_advanced")

    def on_end(self) -> None:
        """Say that all have been loaded."""
        self._report("log_dir.loaded")

    def _report(self, event: str) -> None:
        log.info(
            event,
            path=str(self._path),
            loaded_count=self._loaded_count,
            log_count=self._log_count,
            duration_ms=round((time.monotonic() - self._began_s) * 1000),
        )
