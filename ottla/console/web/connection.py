"""A connection of a browser, which ends if the browser keeps it waiting (edge).

Idle connections would otherwise use up the connections of the server, without a token. A response
may take as long as it needs while the browser accepts its bytes.
"""

import asyncio
import enum
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ottla.console.web.event_stream import SEND_TIMEOUT_S

REQUEST_TIMEOUT_S: Final = 10
"""Time from the start of a connection, or the end of a response, to the end of a request."""


class Awaited(enum.Enum):
    """The next act of a browser without which its connection ends."""

    REQUEST = enum.auto()
    """The rest of a request, or all of it."""
    RECEIPT = enum.auto()
    """Some bytes of a response that have no room in the buffers of the system."""


class Connection(H11Protocol):
    """A connection that has a time limit for its browser."""

    _awaited: Awaited | None = None
    _timer: asyncio.TimerHandle | None = None
    _unsent_bytes = 0
    """Size of the bytes that waited for the browser when the timer began."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        # Writing is then paused as long as any byte is unsent.
        transport.set_write_buffer_limits(high=0)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Handle a part of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for the browser to accept bytes."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Continue once the browser has accepted all bytes."""
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        super().connection_lost(exc)
        self._stop_timer()

    def _watch(self) -> None:
        """Begin a wait, unless it is the present one."""
        awaited = None
        if self.flow.write_paused:
            awaited = Awaited.RECEIPT
        elif self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            awaited = Awaited.REQUEST
        if awaited is not self._awaited:
            self._awaited = awaited
            self._start_timer()

    def _start_timer(self) -> None:
        self._stop_timer()
        if self._awaited is Awaited.REQUEST:
            self._timer = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.abort)
        elif self._awaited is Awaited.RECEIPT:
            self._unsent_bytes = self.transport.get_write_buffer_size()
            self._timer = self.loop.call_later(SEND_TIMEOUT_S, self._on_unread)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_unread(self) -> None:
        if self.transport.get_write_buffer_size() < self._unsent_bytes:
            self._start_timer()
        else:
            # Not `close`, which would wait until the browser has accepted the rest.
            self.transport.abort()
