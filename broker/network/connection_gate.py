"""Security of a listener and its connections, as the network layer sees it (edge)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker.network.request import ConnectionQueue
from broker.security.principal import Principal

if TYPE_CHECKING:
    import asyncio
    import ssl

    from broker.security.sasl_exchange import SaslExchange


class Gate(Protocol):
    """Receives the frames of a connection until its client is authenticated."""

    @property
    def max_frame_bytes(self) -> int:
        """Limit of a frame's size."""

    def on_frame(self, frame: memoryview) -> None:
        """Take a frame; it is valid only during this call."""

    def close(self) -> None:
        """Release everything, because the connection is lost."""


class GatedConnection(Protocol):
    """A connection, as its gate sees it."""

    @property
    def listener_name(self) -> str:
        """Name of the listener that accepted the connection."""

    @property
    def client_host(self) -> str:
        """Address of the client."""

    @property
    def queue(self) -> ConnectionQueue:
        """Its place in the request channel."""

    def send_unqueued(self, data: bytes) -> None:
        """Send bytes; no request may be in flight."""

    def hold(self) -> None:
        """Read no more, until the connection is closed."""

    def admit(
        self, principal: Principal, session: SaslExchange | None, expires_at_s: float
    ) -> None:
        """Serve all requests from now on, for `principal` and up to `expires_at_s`."""

    def refuse_input(self, reason: str) -> None:
        """Close after the responses to earlier requests; ignore all later input."""

    def drop(self, reason: str) -> None:
        """Close at once because of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """Encryption and authentication of one listener; by default there is neither.

    `tls` returns the context for the next connection, `principal_of` the identity that a TLS client
    has shown, and `make_gate` begins the authentication of a connection.
    """

    tls: Callable[[], ssl.SSLContext] | None = None
    principal_of: Callable[[asyncio.BaseTransport], Principal] | None = None
    make_gate: Callable[[GatedConnection], Gate] | None = None


NO_SECURITY = ListenerSecurity()
