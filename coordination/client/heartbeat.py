"""Heartbeats while the main loop is busy (edge): a small thread that may send pings.

The loop pings by itself when it can. When it is late, this thread sends the ping, so that a long
computation does not cost the session; but when the loop has not turned for half a timeout, it
stops doing so: a hung process must lose its session, because nobody else could tell.

The thread writes only when the transport holds nothing back, under a lock that the loop's own
writes take too, so a ping never lands inside another packet.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from coordination import frames
from coordination.messages import XID_PING, OpCode

PING_PACKET: Final = frames.encode_request(XID_PING, OpCode.PING)
_CHECKS_PER_TIMEOUT: Final = 12
_HUNG_PART: Final = 1 / 2
_LATE_PART: Final = 1 / 3


class Heartbeat:
    """One per client; knows at most one connection at a time."""

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
        # To be held while the loop writes to the transport.
        self.lock = threading.Lock()
        self._stopped = threading.Event()
        self._descriptor: int | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._turned_s = self._said_s = clock()
        self._turn_handle: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin, from the loop."""
        self._turn()
        self._thread.start()

    def stop(self) -> None:
        """End; returns when the thread is gone."""
        self._stopped.set()
        if self._turn_handle is not None:
            self._turn_handle.cancel()
        self.detach()
        self._thread.join()

    def attach(self, transport: asyncio.WriteTransport, timeout_ms: float) -> None:
        """Look after this connection."""
        raw = transport.get_extra_info("socket")
        if raw is None or transport.get_extra_info("ssl_object") is not None:
            # Inside TLS only the transport can write.
            return
        with self.lock:
            self._timeout_s = timeout_ms / 1000
            self._transport = transport
            # An own descriptor: the number of a closed one may belong to another file by now.
            self._descriptor = os.dup(raw.fileno())
            self._said_s = self._clock()

    def detach(self) -> None:
        """Forget the connection."""
        with self.lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = self._transport = None

    def on_said(self) -> None:
        """The loop has sent something."""
        self._said_s = self._clock()

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
        is_late = now_s - self._said_s >= self._timeout_s * _LATE_PART
        if is_hung or not is_late or self._descriptor is None or self._transport is None:
            return
        if self._transport.get_write_buffer_size():
            # Half a packet may be out already.
            return
        try:
            os.write(self._descriptor, PING_PACKET)
        except OSError:
            # Full or closed: the loop will see it.
            return
        self._said_s = now_s
        self.sent_count += 1
