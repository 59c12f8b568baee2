"""The client's view of its session (decision): states, deadlines, and when to doubt.

The clock is a parameter: monotonic milliseconds. A session that hears nothing for a whole
timeout may have ended on the server: SUSPECT. From then on its owner must not act. After a third
more it is EXPIRED for good, whatever a server might say later.
"""

from enum import Enum
from typing import Final


class SessionState(Enum):
    """Where a session is in its life."""

    DISCONNECTED = "no session yet"
    CONNECTED = "a server answers"
    SUSPENDED = "no connection; the session lives if one comes back in time"
    SUSPECT = "nothing heard for a whole timeout: the session may be gone, do not act"
    EXPIRED = "the session is gone, with its ephemeral nodes"
    CLOSED = "closed by its user"


class Due(Enum):
    """What the time demands."""

    NOTHING = "wait"
    PING = "the server should hear of us"
    DROP = "the connection is dead: leave it"
    SUSPECT = "enter SUSPECT"
    EXPIRE = "enter EXPIRED"


PING_PART: Final = 1 / 3
DEAD_PART: Final = 2 / 3
SUSPECT_PART: Final = 1.0
EXPIRED_PART: Final = 4 / 3


class SessionClock:
    """When something was last heard and said, against the negotiated timeout."""

    def __init__(self, timeout_ms: float, now_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self.heard_ms = now_ms
        self.said_ms = now_ms

    def due(self, state: SessionState, now_ms: float) -> Due:
        """Return what to do now in `state`."""
        silence_ms = now_ms - self.heard_ms
        if state is SessionState.CONNECTED:
            if silence_ms >= self.timeout_ms * DEAD_PART:
                return Due.DROP
            if now_ms - self.said_ms >= self.timeout_ms * PING_PART:
                return Due.PING
            return Due.NOTHING
        if state in (SessionState.SUSPENDED, SessionState.SUSPECT):
            if silence_ms >= self.timeout_ms * EXPIRED_PART:
                return Due.EXPIRE
            if state is SessionState.SUSPENDED and silence_ms >= self.timeout_ms * SUSPECT_PART:
                return Due.SUSPECT
        return Due.NOTHING

    def wait_ms(self, state: SessionState, now_ms: float) -> float:
        """Return how long until `due` may have another answer."""
        if state is SessionState.CONNECTED:
            at_ms = min(
                self.heard_ms + self.timeout_ms * DEAD_PART,
                self.said_ms + self.timeout_ms * PING_PART,
            )
        elif state is SessionState.SUSPENDED:
            at_ms = self.heard_ms + self.timeout_ms * SUSPECT_PART
        else:
            at_ms = self.heard_ms + self.timeout_ms * EXPIRED_PART
        return max(1.0, at_ms - now_ms)
