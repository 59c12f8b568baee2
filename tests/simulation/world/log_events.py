"""The log events of the simulated programs, which judges follow as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

import structlog

from tests.simulation.world.process import current_host

MALFORMED: Final = "Request v"
"""Part of the reason for which a connection is dropped, after the name of the request."""
Listener = Callable[[str, MutableMapping[str, Any]], None]
"""Called with the host and the fields of an event; it must not raise."""


class LogEvents:
    """Passes the events of a world to listeners, and collects the errors that only bugs cause."""

    def __init__(self) -> None:
        self.bugs: list[str] = []
        self.listeners: dict[str, Listener] = {}
        """By the name of the event."""

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow all events meanwhile."""
        processors = structlog.get_config()["processors"]
        processors.insert(0, self._note)
        try:
            yield
        finally:
            processors.remove(self._note)

    def _note(
        self, _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        name, host = event["event"], current_host()
        if event.get("exc_info") or _is_malformed(event):
            self.bugs.append(f"{host}: {dict(event)}")
        listener = self.listeners.get(name)
        if listener is not None:
            listener(host, event)
        return event


def _is_malformed(event: Mapping[str, Any]) -> bool:
    """Whether a broker has found a request malformed: all clients of a world send correct ones."""
    return event["event"] == "connection.dropped" and MALFORMED in str(event["reason"])
