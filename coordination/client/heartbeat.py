"""Heartbeats while the event loop is busy (edge): a thread that sends pings in its place.

Normally the loop sends the pings. If it is late, this thread sends them, so that a long computation
does not cost the session. If the loop has not run for half a timeout, the thread stops: a hung
process must lose its session, because nothing else would reveal that it hangs.

The thread writes only if the transport's buffer is empty, under a lock that the loop's own writes
take too, so a ping never lands inside another packet.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from coordination.protocol import frames
from coordination.protocol.messages import XID_PING, OpCode

PING_PACKET: Final = frames.encode_request(XID_PING, OpCode.PING)
_CHECKS_PER_TIMEOUT: Final = 12
_HUNG_PART: Final = 1 / 2
_LATE_PART: Final = 1 / 3


class Heartbeat:
    """Heartbeat thread of one client, attached to at most one connection at a time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout_ms: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sent_count = 0
        self._loop = loop
        self._clock = clock
        self._timeout_s = timeout_ms / 1000
        # Held while the loop writes to the transport.
        self.lock = threading.Lock()
        self._stopped = threading.Event()
        self._descriptor: int | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._turned_s = self._sent_s = clock()
        self._turn_handle: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread; called from the loop."""
        self._turn()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._stopped.set()
        if self._turn_handle is not None:
            self._turn_handle.cancel()
        self.detach()
        self._thread.join()

    def attach(self, transport: asyncio.WriteTransport, timeout_ms: float) -> None:
        """Send pings on this connection when the loop is late."""
        raw = transport.get_extra_info("socket")
        if raw is None or transport.get_extra_info("ssl_object") is not None:
            # With TLS only the transport can write.
            return
        with self.lock:
            self._timeout_s = timeout_ms / 1000
            self._transport = transport
            # A duplicate, because the number of a closed descriptor may be reused.
            self._descriptor = os.dup(raw.fileno())
            self._sent_s = self._clock()

    def detach(self) -> None:
        """Stop using the connection."""
        with self.lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = self._transport = None

    def on_sent(self) -> None:
        """Record that the loop has sent a packet."""
        self._sent_s = self._clock()

    def _turn(self) -> None:
        self._turned_s = self._clock()
        delay_s = self._timeout_s / _CHECKS_PER_TIMEOUT
        self._turn_handle = self._loop.call_later(delay_s, self._turn)

    def _run(self) -> None:
        while not self._stopped.wait(self._timeout_s / _CHECKS_PER_TIMEOUT):
            with self.lock:
                self._ping_if_late()

    def _ping_if_late(self) -> None:
        now_s = self._clock()
        is_hung = now_s - self._turned_s >= self._timeout_s * _HUNG_PART
        is_late = now_s - self._sent_s >= self._timeout_s * _LATE_PART
        if is_hung or not is_late or self._descriptor is None or self._transport is None:
            return
        if self._transport.get_write_buffer_size():
            # A packet may be partly sent.
            return
        try:
            os.write(self._descriptor, PING_PACKET)
        except OSError:
            # The socket is full or closed: the loop will notice.
            return
        self._sent_s = now_s
        self.sent_count += 1
