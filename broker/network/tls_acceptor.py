"""Accepts the connections of a listener with TLS, and performs their handshakes (edge).

A connection counts from the moment it is accepted. `create_server` with a TLS context reports a
connection only after its handshake, so that sockets in a handshake would escape every limit; and it
never reports a handshake that failed. A turn of the loop accepts `ACCEPTS_PER_TURN` connections, so
that a wave of handshakes delays established connections little. If too many handshakes are pending,
the oldest one of the host with the most ends: silent clients keep nobody out, and least of all the
clients of other hosts.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import structlog

from broker.network.processor import Processor
from trust.tls_alert import sending_alert

HANDSHAKE_TIMEOUT_S: Final = 10.0
# Time for a client to confirm the end of TLS: shorter than the stop of a broker.
SHUTDOWN_TIMEOUT_S: Final = 1.0
# Back-off after a failed accept, for example without free file descriptors.
ACCEPT_BACKOFF_S: Final = 0.1
MAX_HANDSHAKES: Final = 500
"""Limit of the pending handshakes. All of them may fail in one turn of the loop, in 75 us each."""
ACCEPTS_PER_TURN: Final = 16
_REASONS: Final[Mapping[str, str]] = {
    "HTTP_REQUEST": "the client does not speak TLS",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the certificate of this listener",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses the certificate of this listener",
    "UNSUPPORTED_PROTOCOL": "the client speaks only versions of TLS that are not enabled",
}
"""By the reason of OpenSSL."""

log = structlog.get_logger(__name__)


class Admission(Protocol):
    """Counts connections from before their handshakes."""

    def admit(self, client_host: str, listener_name: str) -> str | None:
        """Count a connection, or return the reason to refuse it."""

    def leave(self, client_host: str) -> None:
        """Stop counting a connection whose handshake failed."""


class TlsAcceptor:
    """Accepts on bound sockets."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        admission: Admission,
        listener_name: str,
        context: Callable[[], ssl.SSLContext],
        make_processor: Callable[[], Processor],
    ) -> None:
        """Use the current `context` for each new connection."""
        self._loop = loop
        self._admission = admission
        self._listener_name = listener_name
        self._context = context
        self._make_processor = make_processor
        self._accepting: list[asyncio.Task[None]] = []
        # By host, oldest first, without the ones that were ended early.
        self._handshakes: dict[str, dict[asyncio.Task[None], None]] = {}
        self._handshake_count = 0
        self._ending: set[asyncio.Task[None]] = set()

    def start(self, sockets: list[socket.socket]) -> None:
        """Accept on listening sockets from now on."""
        for listening in sockets:
            task = self._loop.create_task(self._accept(listening), name="tls-accept")
            # Not before its end: the loop still watches the socket.
            task.add_done_callback(partial(_close, listening))
            self._accepting.append(task)

    def stop(self) -> None:
        """Stop accepting, and end the pending handshakes."""
        for task in self._accepting:
            task.cancel()
        for task in self._pending():
            self._cancel(task)

    async def wait_closed(self) -> None:
        """Wait until nothing is pending any more."""
        pending = [*self._accepting, *self._pending(), *self._ending]
        if pending:
            await asyncio.wait(pending)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, peer = await self._loop.sock_accept(listening)
                self._admit(accepted, str(peer[0]))
                # Also the waiting connections: a full backlog would delay others by a second.
                with suppress(BlockingIOError):
                    for _ in range(ACCEPTS_PER_TURN - 1):
                        accepted, peer = listening.accept()
                        accepted.setblocking(False)
                        self._admit(accepted, str(peer[0]))
            except OSError as error:
                log.warning("connection.not_accepted", error=str(error))
                await asyncio.sleep(ACCEPT_BACKOFF_S)
            # Without this, a waiting connection is accepted in the same turn of the loop.
            await asyncio.sleep(0)

    def _admit(self, accepted: socket.socket, client_host: str) -> None:
        """Count a connection and begin its handshake, or refuse it."""
        refusal = self._admission.admit(client_host, self._listener_name)
        if refusal is not None:
            log.warning("connection.refused", client_host=client_host, reason=refusal)
            accepted.close()
            return
        if self._handshake_count >= MAX_HANDSHAKES:
            self._end_one()
        task = self._loop.create_task(self._negotiate(accepted, client_host), name="tls-handshake")
        self._handshakes.setdefault(client_host, {})[task] = None
        self._handshake_count += 1
        task.add_done_callback(partial(self._on_negotiated, client_host))

    def _end_one(self) -> None:
        host, tasks = max(self._handshakes.items(), key=lambda each: len(each[1]))
        oldest = next(iter(tasks))
        # A task ends in a later turn of the loop, so it must not be chosen again in this one.
        self._forget(host, oldest)
        self._ending.add(oldest)
        self._cancel(oldest)

    def _cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a handshake after its first step.

        A task that is cancelled before it would run nothing of its own: its connection would count
        without end, and its socket stay open.
        """
        self._loop.call_soon(task.cancel)

    def _on_negotiated(self, client_host: str, task: asyncio.Task[None]) -> None:
        if task in self._ending:
            self._ending.discard(task)
        else:
            self._forget(client_host, task)

    def _forget(self, client_host: str, task: asyncio.Task[None]) -> None:
        tasks = self._handshakes[client_host]
        del tasks[task]
        self._handshake_count -= 1
        if not tasks:
            del self._handshakes[client_host]

    def _pending(self) -> list[asyncio.Task[None]]:
        return [task for tasks in self._handshakes.values() for task in tasks]

    async def _negotiate(self, accepted: socket.socket, client_host: str) -> None:
        processor = self._make_processor()
        try:
            with sending_alert(accepted):
                await self._loop.connect_accepted_socket(
                    lambda: processor,
                    accepted,
                    ssl=self._context(),
                    ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                    ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
                )
        except OSError as error:
            log.warning(
                "connection.handshake_failed",
                listener_name=self._listener_name,
                client_host=client_host,
                reason=reason_of(error),
            )
        finally:
            if not processor.number:
                self._admission.leave(client_host)


def _close(listening: socket.socket, _: asyncio.Task[None]) -> None:
    listening.close()


def reason_of(error: OSError) -> str:
    """Return the reason of a failed handshake, for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the client is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        code = error.reason or ""
        return _REASONS.get(code, code.lower().replace("_", " ")) or str(error)
    return str(error) or "the client closed the connection"
