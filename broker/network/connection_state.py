"""States of a connection, reasons not to read it, and stalled requests (decision).

A connection is read if it is open and no reason to pause applies. Each reason ends with one event,
for which the connection registers. Then it looks for the next reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import Final

from kafkawire.units import KIB

# While other connections wait for memory, a large request must grow by `MIN_PROGRESS_BYTES` within
# `MAX_STALL_S`. A small one, requests behind a long one, and the input of a muted connection may
# hold memory for `MAX_KEPT_S`.
MIN_PROGRESS_BYTES: Final = 16 * KIB
MAX_STALL_S: Final = 2.0
MAX_KEPT_S: Final = 30.0


class ConnectionState(Enum):
    """State of a connection; only an OPEN one is read, and only a CLOSED one sends nothing."""

    NEW = "new"
    OPEN = "open"
    MUTED = "muted"
    """Not read until a quota allows it."""
    DRAINING = "draining"
    """Not read any more; closes once its responses are sent."""
    DROPPED = "dropped"
    """The reason to close it is logged: at once, or as DRAINING."""
    CLOSED = "closed"
    """Refused or lost."""


_S = ConnectionState
PREDECESSORS: Final[Mapping[ConnectionState, Set[ConnectionState]]] = {
    _S.NEW: frozenset(),
    _S.OPEN: {_S.NEW, _S.MUTED},
    _S.MUTED: {_S.OPEN},
    _S.DRAINING: {_S.OPEN, _S.MUTED},
    _S.DROPPED: {_S.OPEN, _S.MUTED, _S.DRAINING},
    _S.CLOSED: {_S.NEW, _S.OPEN, _S.MUTED, _S.DRAINING, _S.DROPPED},
}
"""By state, the states that may precede it. An event that asks for another move has no effect."""


class Pause(Enum):
    """A reason not to read a connection; the value names the event that ends it."""

    ENDING = "the connection is lost"
    MUTED = "the quota allows more requests"
    MEMORY = "receive memory is free"
    OPENING = "the request channel opens"
    LONG_REQUEST = "the connection's own long request is answered"
    CHANNEL = "the request channel has room"
    CLIENT = "the client reads its responses"
    IN_FLIGHT = "a request in flight is answered"


_P = Pause
WAITS_FOR_BROKER: Final = frozenset({_P.MEMORY, _P.OPENING, _P.CHANNEL})
"""Reasons that the broker must end. A client that waits for them is not slow."""
PROLONGED_BY_CLIENT: Final = frozenset({_P.MUTED, _P.LONG_REQUEST})
"""Reasons that a client can prolong: by a large excess over its quota, or by a JoinGroup.

Nothing is read from it meanwhile, so that it shows no progress.
"""


def reason_to_pause(
    state: ConnectionState,
    room: int,
    *,
    needs_memory: bool,
    is_early: bool,
    is_blocked: bool,
    is_channel_full: bool,
    is_client_slow: bool,
) -> Pause | None:
    """Return the first reason not to read a connection with `room` for further requests.

    `needs_memory` and `is_early` describe the next request, which has arrived in part; the others
    explain why there is no room. There is none while `is_blocked` or `is_client_slow`.
    """
    if state is _S.MUTED:
        return _P.MUTED
    if state is not _S.OPEN:
        return _P.ENDING
    # First, because waiting for the broker as well must not exempt the client from time limits.
    if is_blocked:
        return _P.LONG_REQUEST
    if is_client_slow:
        return _P.CLIENT
    if needs_memory:
        return _P.MEMORY
    if is_early:
        return _P.OPENING
    if room > 0:
        return None
    return _P.CHANNEL if is_channel_full else _P.IN_FLIGHT


class Progress:
    """Progress of an incomplete request, measured while other connections wait for memory."""

    def __init__(self) -> None:
        # Size of a large request when it last made progress, and the time of that.
        self._arrived_bytes = 0
        self._at_s = -1.0

    def reset(self) -> None:
        """Measure from the next check on."""
        self._at_s = -1.0

    def check(
        self, arrived_bytes: int, now_s: float, since_s: float, last_active_s: float
    ) -> str | None:
        """Return the reason to drop a connection that holds memory, or None.

        `arrived_bytes` is 0 for a small request, and while the client prolongs a pause. Memory has
        been short since `since_s`.
        """
        if not arrived_bytes:
            if now_s - max(last_active_s, since_s) > MAX_KEPT_S:
                return f"input kept for {MAX_KEPT_S} s while memory is short"
            return None
        progress_bytes = arrived_bytes - self._arrived_bytes
        if self._at_s < since_s or not 0 <= progress_bytes < MIN_PROGRESS_BYTES:
            self._at_s, self._arrived_bytes = now_s, arrived_bytes
        elif now_s - self._at_s > MAX_STALL_S:
            return f"{arrived_bytes} bytes of a request stalled while memory is short"
        return None
