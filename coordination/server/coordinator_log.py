"""Log setup of the daemon and its child (edge): JSON lines, or text on a terminal."""

import logging
import sys
import time

import structlog
from structlog.typing import EventDict, Processor

from monitoring.log_limits import LineLimits
from monitoring.log_lines import log_lines


def set_up_logging() -> None:
    """Log to standard error; standard output is for programs that wait for `ready`."""
    renderers: list[Processor] = [structlog.processors.JSONRenderer()]
    if sys.stderr.isatty():
        renderers = [_escape_controls, structlog.dev.ConsoleRenderer()]
    structlog.configure(
        processors=[
            _limit(LineLimits()),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(log_lines(sys.stderr)),
    )


def _limit(limits: LineLimits) -> Processor:
    def apply(_logger: object, _method: str, event: EventDict) -> EventDict:
        if not limits.admit(event, time.monotonic()):
            raise structlog.DropEvent
        return event

    return apply


def _escape_controls(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escape control characters, because clients choose the paths and texts in events."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = "\n".join(repr(line)[1:-1] for line in value.split("\n"))
    return event
