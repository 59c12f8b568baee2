"""The gate of a SASL listener (edge).

Feeds the frames of a connection to its exchange, and sends the answers. A failure is answered after
a delay, in which nothing is read; then the connection is closed. A client that is not authenticated
in time is closed as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final

import structlog

from broker.network.connection_gate import GatedConnection
from broker.network.metrics import NetworkMetrics
from broker.network.reply import Reply
from broker.network.request import Request
from broker.security.principal import USER, Principal
from broker.security.sasl_exchange import ExchangeState, Offered, SaslExchange, Step
from kafkawire.headers import RequestHeader

AUTHENTICATION_TIMEOUT_S: Final = 10.0
"""Time from the first byte to the end of the authentication. Not a key of Kafka."""
MAX_WAITING: Final = 2_000
"""Limit of the connections of a listener that are not authenticated. The oldest one is closed, so
that silent clients keep nobody out."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Properties that the gates of a listener share."""

    loop: asyncio.AbstractEventLoop
    handle: Callable[[Request], Reply]
    metrics: NetworkMetrics
    offered: Offered
    max_frame_bytes: int
    failure_delay_s: float
    timeout_s: float = AUTHENTICATION_TIMEOUT_S
    waiting: dict[SaslGate, None] = field(default_factory=dict)
    """The gates that are closed, oldest first."""


class SaslGate:
    """The gate of one connection."""

    def __init__(self, settings: GateSettings, connection: GatedConnection) -> None:
        self.max_frame_bytes = settings.max_frame_bytes
        self._settings = settings
        self._connection = connection
        self._exchange = SaslExchange(settings.offered, self._describe)
        self._timer: asyncio.TimerHandle = settings.loop.call_later(
            settings.timeout_s, self._on_timeout
        )
        if len(settings.waiting) >= MAX_WAITING:
            next(iter(settings.waiting)).evict()
        settings.waiting[self] = None

    def on_frame(self, frame: memoryview) -> None:
        """Take a frame; it is valid only during this call."""
        step = self._exchange.receive(bytes(frame))
        if step.failure:
            self._settings.metrics.authentications_failed += 1
            self._timer.cancel()
            self._connection.hold()
            self._timer = self._settings.loop.call_later(
                self._settings.failure_delay_s, partial(self._fail, step)
            )
            return
        if step.output:
            self._connection.send_unqueued(step.output)
        if self._exchange.state is ExchangeState.READY:
            self._admit()

    def close(self) -> None:
        """Stop waiting for the client."""
        self._timer.cancel()
        self._settings.waiting.pop(self, None)

    def evict(self) -> None:
        """Close the connection in favour of newer ones."""
        self.close()
        self._connection.drop(f"{MAX_WAITING} later connections are not authenticated either")

    def _admit(self) -> None:
        exchange = self._exchange
        now_s = exchange.authenticated_at_s = self._settings.loop.time()
        self.close()
        self._settings.metrics.authentications += 1
        log.debug(
            "connection.authenticated",
            listener_name=self._connection.listener_name,
            client_host=self._connection.client_host,
            mechanism=exchange.mechanism,
            user=exchange.user,
        )
        self._connection.admit(
            Principal(USER, exchange.user),
            exchange,
            expiry_of(exchange.lifetime_ms, now_s),
        )

    def _fail(self, step: Step) -> None:
        if step.output:
            self._connection.send_unqueued(step.output)
        self._connection.refuse_input(f"authentication failed: {step.failure}")

    def _on_timeout(self) -> None:
        self._connection.drop(f"not authenticated within {self._settings.timeout_s} s")

    def _describe(self, header: RequestHeader, body: memoryview) -> tuple[RequestHeader, object]:
        """Return the response to ApiVersions, as any connection gets it."""
        now_s = self._settings.loop.time()
        request = Request(self._connection.queue, header, body, now_s)
        reply = self._settings.handle(request)
        return request.header, reply.message


def expiry_of(lifetime_ms: int, now_s: float) -> float:
    """Return the end of a session that begins now; infinite without a lifetime."""
    return now_s + lifetime_ms / 1000 if lifetime_ms > 0 else inf
