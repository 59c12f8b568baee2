"""Limits the lines of the log that clients without a password can cause (decision).

Each connection that fails is a line, and connections cost a stranger nothing: without a limit they
would fill the disk, and a thousand that fail at once would hold up the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

LIMITED: Final = frozenset(
    {
        "connection.dropped",
        "connection.handshake_failed",
        "connection.refused",
        "connection.rejected",
        "control_request.from_elsewhere",
        "control_request.unproven",
    }
)
"""The events that need no authentication. Their key `client_host` is the host."""
WINDOW_S: Final = 10.0
MAX_LINES: Final = 500
"""Limit of the lines of one event within `WINDOW_S`, of all hosts together."""
MAX_LINES_PER_HOST: Final = 100
MAX_HOSTS: Final = 1_000
"""Limit of the hosts that are counted. Beyond it, the oldest one is forgotten."""


@dataclass(slots=True)
class _Window:
    """The lines of one event since `began_at_s`, of a host or of all hosts."""

    began_at_s: float
    line_count: int = 0
    left_out_count: int = 0


class LineLimits:
    """Counts the lines of all limited events."""

    def __init__(self) -> None:
        self._all: dict[str, _Window] = {}
        # By event and host, the oldest window first.
        self._by_host: dict[tuple[str, str], _Window] = {}

    def admit(self, line: MutableMapping[str, Any], now_s: float) -> bool:
        """Return whether a line is written, and add the values of `take` to it."""
        event = line["event"]
        if event not in LIMITED:
            return True
        values = self.take(event, str(line.get("client_host", "")), now_s)
        if values is None:
            return False
        line.update(values)
        return True

    def take(self, event: str, host: str, now_s: float) -> Mapping[str, object] | None:
        """Return more values for a line of a limited event; None if the line is left out.

        The last line before a gap has `limit_reached`, and the first one behind it the number of
        lines that are missing.
        """
        own, every = self._by_host.get((event, host)), self._all.get(event)
        if every is None or now_s - every.began_at_s >= WINDOW_S:
            every = self._all[event] = _Window(now_s)
        if own is None or now_s - own.began_at_s >= WINDOW_S:
            own = self._begin(event, host, now_s)
        if own.line_count >= MAX_LINES_PER_HOST or every.line_count >= MAX_LINES:
            own.left_out_count += 1
            return None
        own.line_count += 1
        every.line_count += 1
        values: dict[str, object] = {}
        if own.left_out_count:
            values["left_out_count"], own.left_out_count = own.left_out_count, 0
        if own.line_count == MAX_LINES_PER_HOST or every.line_count == MAX_LINES:
            values["limit_reached"] = True
        return values

    def _begin(self, event: str, host: str, now_s: float) -> _Window:
        former = self._by_host.pop((event, host), None)
        if len(self._by_host) >= MAX_HOSTS:
            del self._by_host[next(iter(self._by_host))]
        window = self._by_host[event, host] = _Window(now_s)
        if former is not None:
            window.left_out_count = former.left_out_count
        return window
