"""The alert of TLS that ends a failed handshake (edge).

An event loop closes the connection of a failed handshake without the last bytes of OpenSSL, which
name the reason. A client without them takes the refusal of its certificate or version for a lost
connection, and connects again and again. So a server's context keeps these bytes with the error.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_NOTE = "alert"


class ServerContext(ssl.SSLContext):
    """A context for the server's side of connections."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Return one side of a connection, which reads `incoming` and writes `outgoing`."""
        wrapped = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(wrapped, _Side)
        wrapped.outgoing = outgoing
        return wrapped


class _Side(ssl.SSLObject):
    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            setattr(error, _NOTE, self.outgoing.read())
            raise


ServerContext.sslobject_class = _Side


@contextmanager
def sending_alert(accepted: socket.socket) -> Iterator[None]:
    """Send the alert of a handshake on `accepted` that fails within this context.

    Raises:
        OSError: there is no free file descriptor; `accepted` is closed.
    """
    # A loop has closed its own descriptor by the time it reports a failure.
    with _duplicate(accepted) as duplicate:
        try:
            yield
        except ssl.SSLError as error:
            # The client may have gone, or read nothing.
            with suppress(OSError):
                duplicate.send(getattr(error, _NOTE, b""))
            raise


def _duplicate(accepted: socket.socket) -> socket.socket:
    try:
        return accepted.dup()
    except OSError:
        accepted.close()
        raise
