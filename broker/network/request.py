"""One request on its way through the broker, and the connection that it came by (decision)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from broker.network.reply import Reply
from kafkawire.headers import RequestHeader

# Whom a connection speaks for that has not said, and proved, for whom.
ANONYMOUS: Final = "ANONYMOUS"
# The reply of a request that no handler has seen.
NOT_HANDLED: Final = Reply()
NO_BODY: Final = memoryview(b"")


class Connection(Protocol):
    """The connection that a request came by, as handlers see it."""

    @property
    def listener_name(self) -> str:
        """Name of the listener that accepted it."""

    @property
    def client_host(self) -> str:
        """Address of the client."""

    @property
    def user_name(self) -> str:
        """Whom the client speaks for."""

    @property
    def number(self) -> int:
        """How many connections had been accepted with it: a later one has a larger number."""

    def mute(self, delay_s: float) -> None:
        """Read no further request for so long; what was read is answered."""


class ServedConnection(Connection, Protocol):
    """What the channel needs from a connection."""

    is_control_plane: bool
    long_requests: list[Request]
    """Requests that wait because they, or one before them, are long. Only the channel uses this."""
    blocking_reply: Reply | None
    """What must be answered before the next long request; only the channel sets it."""
    is_ready: bool
    """Whether it waits for its turn to send: set and cleared by the channel only."""

    def on_pending(self, reply: Reply) -> None:
        """Wait for a reply that its handler could not complete at once."""

    def send_ready(self) -> None:
        """Send what is complete, in request order."""

    def on_room(self) -> None:
        """Go on submitting: it was refused before."""

    def drop(self, reason: str) -> None:
        """Close at once, for something went wrong."""


class Request:
    """One request of one connection.

    `body` is a writable view into the receive buffer, after the header: valid only until the
    handler returns.
    """

    __slots__ = ("body", "connection", "header", "received_at_s", "release", "reply", "size_bytes")

    def __init__(
        self,
        connection: ServedConnection,
        header: RequestHeader,
        body: memoryview,
        received_at_s: float,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.connection = connection
        self.header = header
        self.body = body
        # Also when the body is gone.
        self.size_bytes = len(body)
        self.received_at_s = received_at_s
        # Of the network layer: its reply, and who gets the buffer back.
        self.reply = NOT_HANDLED
        self.release = release

    def give_back(self) -> None:
        """Return the buffer of the body, which is not read any more.

        A request that waits for its answer must not hold more than is charged.
        """
        if self.release is not None:
            self.body = NO_BODY
            self.release()

    @property
    def listener_name(self) -> str:
        """Name of the listener that it came by."""
        return self.connection.listener_name

    @property
    def client_host(self) -> str:
        """Address of the client that sent it."""
        return self.connection.client_host
