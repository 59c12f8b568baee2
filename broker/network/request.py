"""One request and its connection, as seen by handlers and the request channel (decision)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from broker.network.reply import Reply
from broker.network.request_timing import RequestTiming
from broker.security.principal import Principal
from kafkawire.apis import ApiKey
from kafkawire.headers import RequestHeader

if TYPE_CHECKING:
    from broker.security.sasl_exchange import SaslExchange

# Reply of a request that no handler has seen.
NOT_HANDLED: Final = Reply()
NO_BODY: Final = memoryview(b"")


class Connection(Protocol):
    """The connection of a request, as seen by handlers and the request channel."""

    @property
    def listener_name(self) -> str:
        """Name of the listener that accepted the connection."""

    @property
    def client_host(self) -> str:
        """Address of the client."""

    @property
    def principal(self) -> Principal:
        """Identity that the client acts for; authentication may change it between requests."""

    @property
    def number(self) -> int:
        """Sequence number of the connection; later connections have larger numbers."""

    @property
    def session(self) -> SaslExchange | None:
        """The authentication that began the session; None without SASL."""

    def renew(self, expires_at_s: float) -> None:
        """Extend the session."""

    def hold(self) -> None:
        """Read no more, until the connection is closed."""

    def mute(self, delay_s: float) -> None:
        """Stop reading for `delay_s`. Requests already read are still answered."""

    # For the request channel only.

    def send_ready(self) -> None:
        """Send the complete responses, in request order."""

    def on_room(self) -> None:
        """Resume submitting, which the channel had refused."""

    def keep(self, request: Request) -> None:
        """Copy the body of `request` out of the arena, and charge for it until it is given back.

        Raises:
            ReceiveMemoryExhaustedError: the copy does not fit; the request must be refused.
        """

    def refuse_input(self, reason: str) -> None:
        """Close after the responses to earlier requests; ignore all later input."""

    def drop(self, reason: str) -> None:
        """Close at once because of an error."""


class ConnectionQueue:
    """The place of one connection in the request channel, which alone changes it.

    The connection gets it from the channel, and passes it with each call and in each request.
    """

    def __init__(self, connection: Connection, *, is_control_plane: bool = False) -> None:
        self.connection = connection
        self.is_control_plane = is_control_plane
        # Requests, in their order, that wait in the line of long ones or for earlier responses.
        self.waiting: list[Request] = []
        # Number of short requests at the head of `waiting` that had to wait when their turn came.
        self.deferred_count = 0
        # Weight of the requests handled since all responses were sent, and the API of the last one
        # among them whose reply was pending.
        self.unsent_weight = 0
        self.busy_with: ApiKey | None = None
        # Whether `waiting` waits for responses, outside the line.
        self.is_parked = False
        # Whether requests were dropped for lack of memory, so that later ones are dropped, too.
        self.is_refused = False
        # Whether a long request is to be answered before more is read.
        self.stops_reading = False
        # Whether the connection waits for its turn to send.
        self.is_ready = False
        self.is_closed = False
        # Gives the connection a turn to send.
        self.wake: Callable[[], None]


class Request:
    """One request of one connection.

    `body` is a writable view of the receive buffer behind the header. It is valid only until the
    handler returns, unless the handler takes it.
    """

    __slots__ = (
        "body",
        "header",
        "queue",
        "received_at_s",
        "release",
        "reply",
        "size_bytes",
        "timing",
    )

    def __init__(
        self,
        queue: ConnectionQueue,
        header: RequestHeader,
        body: memoryview,
        received_at_s: float,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.header = header
        self.body = body
        # Stays valid after the body is given back.
        self.size_bytes = len(body)
        self.received_at_s = received_at_s
        # For the network layer only: the place of its connection in the channel, the reply, and
        # the callback that takes the buffer back.
        self.queue = queue
        self.reply = NOT_HANDLED
        self.release = release
        # None unless the parts of the request's time are measured.
        self.timing: RequestTiming | None = None

    def give_back(self) -> None:
        """Return the buffer of the body, which must not be read any more.

        A request that waits for its response must not hold more memory than it is charged for.
        """
        if self.release is not None:
            self.body = NO_BODY
            self.release()

    def take_body(self) -> tuple[memoryview, Callable[[], None]]:
        """Return the body, and the function to call when it is not read any more.

        For a handler that reads the body after it has returned.

        Raises:
            ReceiveMemoryExhaustedError: there is no memory to keep it; the request must be refused.
        """
        if self.release is None:
            self.connection.keep(self)
        assert self.release is not None, "the connection keeps the body until it is released"
        taken = self.body, self.release
        self.body, self.release = NO_BODY, None
        return taken

    @property
    def connection(self) -> Connection:
        """The connection that the client has sent it on."""
        return self.queue.connection

    @property
    def listener_name(self) -> str:
        """Name of the listener that accepted its connection."""
        return self.connection.listener_name

    @property
    def client_host(self) -> str:
        """Address of the client."""
        return self.connection.client_host

    @property
    def principal(self) -> Principal:
        """Identity that the client acts for."""
        return self.connection.principal
