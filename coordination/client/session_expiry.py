"""The client's view of its session (decision): states and deadlines.

Time is a parameter, in monotonic milliseconds. If a client receives nothing for a whole timeout,
the server may have ended the session: it is SUSPECT, and its owner must not act. After another
third of the timeout it is EXPIRED for good, regardless of later packets.

A server may grant more time than the client has requested. The session then lives for as long as
the server promises, but the client gives up a silent server, and its requests, after the time that
it has requested.
"""

from enum import Enum
from typing import Final


class SessionState(Enum):
    """State of a session."""

    DISCONNECTED = "no session yet"
    CONNECTED = "connected to a server"
    SUSPENDED = "no connection; the session survives if one is restored in time"
    SUSPECT = "nothing received for a whole timeout: the session may be gone, do not act"
    EXPIRED = "the session is gone, with its ephemeral nodes"
    CLOSED = "closed by its user"


class Due(Enum):
    """Action that is due."""

    NOTHING = "wait"
    PING = "send a ping"
    DROP = "close the dead connection"
    SUSPECT = "enter SUSPECT"
    EXPIRE = "enter EXPIRED"


PING_PART: Final = 1 / 3
DEAD_PART: Final = 2 / 3
SUSPECT_PART: Final = 1.0
EXPIRED_PART: Final = 4 / 3


class SessionExpiry:
    """Times of the last packets received and sent, against the timeout of the session.

    `silence_ms`, at most the timeout, is the longest silence before the session is SUSPECT.
    """

    def __init__(self, timeout_ms: float, silence_ms: float, now_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self.silence_ms = silence_ms
        self.received_ms = now_ms
        self.sent_ms = now_ms

    def due(self, state: SessionState, now_ms: float) -> Due:
        """Return the action that is due in `state`."""
        silence_ms = now_ms - self.received_ms
        if state is SessionState.CONNECTED:
            if silence_ms >= self.silence_ms * DEAD_PART:
                return Due.DROP
            if now_ms - self.sent_ms >= self.silence_ms * PING_PART:
                return Due.PING
            return Due.NOTHING
        if state in (SessionState.SUSPENDED, SessionState.SUSPECT):
            if silence_ms >= self.timeout_ms * EXPIRED_PART:
                return Due.EXPIRE
            if state is SessionState.SUSPENDED and silence_ms >= self.silence_ms * SUSPECT_PART:
                return Due.SUSPECT
        return Due.NOTHING

    def wait_ms(self, state: SessionState, now_ms: float) -> float:
        """Return the time until `due` may return another action."""
        if state is SessionState.CONNECTED:
            at_ms = min(
                self.received_ms + self.silence_ms * DEAD_PART,
                self.sent_ms + self.silence_ms * PING_PART,
            )
        elif state is SessionState.SUSPENDED:
            at_ms = self.received_ms + self.silence_ms * SUSPECT_PART
        else:
            at_ms = self.received_ms + self.timeout_ms * EXPIRED_PART
        return max(1.0, at_ms - now_ms)
