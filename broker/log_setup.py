"""Sets up logging: readable text on a terminal, JSON lines otherwise (composition).

Daemons log to standard error; standard output is reserved for machine-readable results.
"""

from __future__ import annotations

import logging
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor


def set_up_logging(level: str, stream: TextIO) -> None:
    """Write all events at or above `level` to `stream`."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(is_terminal=stream.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )


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
