"""Sets up logging: readable text on a terminal, JSON lines otherwise (composition).

Daemons log to standard error; standard output is reserved for machine-readable results.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict, Processor

from broker.log_levels import LEVELS, Level, LogLevels
from monitoring.log_limits import LineLimits
from monitoring.log_lines import log_lines

PACKAGES: Final = frozenset(
    {"broker", "clusterstate", "controller", "coordination", "monitoring", "storage", "trust"}
)
"""The packages whose loggers have levels that may change."""
UNNAMED: Final = "broker"


def set_up_logging(level: str, stream: TextIO) -> LogLevels:
    """Write all events at or above `level` to `stream`; return the levels of all loggers."""
    number = logging.getLevelName(level.upper())
    levels = LogLevels(next(name for name, each in LEVELS.items() if each == number), _known)
    lines = log_lines(stream)

    def make_logger(*names: str) -> LeveledLogger:
        return LeveledLogger(lines, levels.level(names[0] if names else UNNAMED))

    structlog.configure(
        processors=[
            _limit(LineLimits()),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(is_terminal=stream.isatty()),
        ],
        wrapper_class=LeveledBoundLogger,
        logger_factory=make_logger,
        cache_logger_on_first_use=True,
    )
    return levels


class LeveledLogger(structlog.WriteLogger):
    """Writes the events of one logger."""

    def __init__(self, stream: TextIO, level: Level) -> None:
        super().__init__(stream)
        self.level = level


class LeveledBoundLogger(structlog.BoundLoggerBase):
    """Drops the events below the level of its logger, before they cost anything."""

    _logger: LeveledLogger

    def debug(self, event: str, **fields: object) -> None:
        """Log at DEBUG."""
        self._write(logging.DEBUG, "debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log at INFO."""
        self._write(logging.INFO, "info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log at WARN."""
        self._write(logging.WARNING, "warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log at ERROR."""
        self._write(logging.ERROR, "error", event, fields)

    def critical(self, event: str, **fields: object) -> None:
        """Log at FATAL."""
        self._write(logging.CRITICAL, "critical", event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log at ERROR, with the current exception."""
        self._write(logging.ERROR, "error", event, {"exc_info": True, **fields})

    def log(self, level: int, event: str, **fields: object) -> None:
        """Log at one of the levels of `logging`."""
        self._write(level, logging.getLevelName(level).lower(), event, fields)

    def is_enabled_for(self, level: int) -> bool:
        """Whether events of one of the levels of `logging` are written now."""
        return level >= self._logger.level.number

    def _write(self, level: int, method: str, event: str, fields: dict[str, object]) -> None:
        if self.is_enabled_for(level):
            self._proxy_to_logger(method, event, **fields)


def _known() -> Iterator[str]:
    """Yield the names of the loggers of all modules that are imported."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES and hasattr(module, "log"):
            yield name


def _limit(limits: LineLimits) -> Processor:
    def apply(_logger: object, _method: str, event: EventDict) -> EventDict:
        if not limits.admit(event, time.monotonic()):
            raise structlog.DropEvent
        return event

    return apply


def _renderers(*, is_terminal: bool) -> list[Processor]:
    if is_terminal:
        # The default formatter shows local variables, which may be passwords.
        plain = structlog.dev.plain_traceback
        return [_escape_controls, structlog.dev.ConsoleRenderer(exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _escape_controls(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escape control characters: clients choose the names in events."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = repr(value)[1:-1]
    return event
