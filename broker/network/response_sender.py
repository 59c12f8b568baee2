"""Sends the responses of one connection: bytes coalesced, file regions without a copy (edge).

Owns the encoded parts not yet handed to the system. Invariants: bytes are sent in order; a
transport with unsent bytes gets no more, and files are read in batches, so that a client that does
not read costs one batch; a region's file stays open until its last byte is sent; bytes that are not
in memory are read from the disk by a thread, never by the loop.

`os.sendfile` needs the transport's own socket (uvloop has no `loop.sendfile`). It is used without
TLS, and while the transport's buffer is empty. In all other cases, and for small regions, the file
is read and written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from broker.network.file_range import FileRange
from broker.network.metrics import NetworkMetrics
from broker.network.request import NOT_HANDLED, Request
from broker.network.response import DATA_TYPES, Data, Part, ResponseBatch
from kafkawire.units import KIB, MIB

# For smaller regions, one write of header and data is cheaper than a write and a sendfile
# (fetch benchmark).
SENDFILE_MIN_BYTES: Final = 64 * KIB
WRITE_BATCH_BYTES: Final = 256 * KIB
# Bytes handed to the transport when the socket is full, so that it reports when there is room
# again. The smallest read of the system, because each byte is copied twice.
REMAINDER_BYTES: Final = 4 * KIB
# Limit per connection and turn of the loop, so that a fast reader does not starve others.
TURN_BYTES: Final = 4 * MIB

# Runs a blocking function in a thread and then, even if it failed, a callback in the loop.
ReadAhead = Callable[[Callable[[], None], Callable[[], None]], None]


class ResponseSender:
    """The output of one connection."""

    def __init__(
        self,
        transport: asyncio.Transport,
        in_flight: deque[Request],
        metrics: NetworkMetrics,
        read_ahead: ReadAhead,
        wake: Callable[[], None],
    ) -> None:
        """Send the responses to `in_flight`, the connection's requests in their order.

        `wake` gives the connection another turn to send.
        """
        self._transport = transport
        self._in_flight = in_flight
        self._metrics = metrics
        self._read_ahead = read_ahead
        self._wake = wake
        # Parts not yet given to the transport.
        self.parts: deque[Data | FileRange] = deque()
        self._socket_descriptor = _plain_socket_descriptor(transport)
        # A simulated loop has no sockets, and no threads to read ahead.
        self._has_socket = transport.get_extra_info("socket") is not None
        self._is_full = False
        self._is_warming = False

    @property
    def is_blocked(self) -> bool:
        """Whether the transport holds unsent bytes, or a file is being read ahead."""
        return self._is_full or self._is_warming

    @property
    def is_all_sent(self) -> bool:
        """Whether the socket has taken the responses to all handled requests."""
        in_flight = self._in_flight
        is_answered = not in_flight or in_flight[0].reply is NOT_HANDLED
        return is_answered and not self.parts and not self.is_blocked

    def start(self) -> None:
        """Ask the transport to call `on_full` whenever the socket has not taken all bytes.

        This may happen at once: the last bytes of a TLS handshake may be unsent.
        """
        # A plain transport is full above its limit, one with TLS at its limit.
        is_plain = self._transport.get_extra_info("sslcontext") is None
        self._transport.set_write_buffer_limits(high=0 if is_plain else 1, low=0)

    def on_full(self) -> None:
        """Record that the transport holds unsent bytes (pause_writing)."""
        self._is_full = True

    def on_drained(self) -> None:
        """Record that the transport has sent all bytes (resume_writing)."""
        self._is_full = False

    def send_done(self, now_s: float) -> str | None:
        """Send the next batch of complete responses.

        Returns the reason to close the connection after them, None if there is none.

        Raises: as `send`.
        """
        batch = ResponseBatch(self._in_flight, self._metrics, now_s)
        if batch.has_regions:
            self.send(batch.parts)
        elif batch.parts:
            # The common case: the transport holds no unsent bytes.
            self._metrics.bytes_out += batch.size_bytes
            self._transport.write(b"".join(batch.parts))  # type: ignore[arg-type]
        if batch.is_full:
            self._wake()
        return batch.close_reason

    def send(self, parts: Iterable[Part]) -> None:
        """Send the parts of responses, as far as the socket takes them; `advance` continues.

        Raises:
            TruncatedRegionError: a file is shorter than promised; close the connection.
            OSError: the connection is lost, or a file cannot be read.
        """
        for part in parts:
            self.parts.append(part if isinstance(part, DATA_TYPES) else FileRange(part))
        self.advance()

    def advance(self) -> None:
        """Send until no parts are left, the socket or a file blocks, or the turn's limit is hit.

        Raises: as `send`.
        """
        bytes_left = TURN_BYTES
        while self.parts and not self.is_blocked and bytes_left > 0:
            head = self.parts[0]
            if isinstance(head, FileRange) and self._is_cold(head):
                self._warm_up(head)
            elif isinstance(head, FileRange) and self._is_sent_as_file(head):
                bytes_left -= self._send_file(head, bytes_left)
            else:
                bytes_left -= self._write_batch()

    def abandon_in_flight(self) -> None:
        """Cancel the replies to all requests in flight."""
        while self._in_flight:
            reply = self._in_flight.popleft().reply
            if reply is not NOT_HANDLED:
                reply.cancel()

    def close(self) -> None:
        """Drop the unsent parts and release their files."""
        self.parts.clear()

    def _is_sent_as_file(self, part: FileRange) -> bool:
        return self._socket_descriptor >= 0 and part.size_bytes >= SENDFILE_MIN_BYTES

    def _is_cold(self, part: FileRange) -> bool:
        return self._has_socket and part.is_cold()

    def _send_file(self, head: FileRange, limit_bytes: int) -> int:
        """Send from a file; hand a small piece to the transport if the socket is full."""
        try:
            count = head.send(self._socket_descriptor, limit_bytes)
            self._metrics.bytes_out += count
            self._metrics.sendfile_bytes += count
        except BlockingIOError:
            remainder = head.read(REMAINDER_BYTES)
            count = len(remainder)
            self._write(remainder)
        if not head.bytes_left:
            self.parts.popleft()
        return count

    def _write_batch(self) -> int:
        """Write parts up to the batch limit, including files that are not sent by sendfile."""
        batch: list[Data] = []
        chunk: Data
        size_bytes = 0
        parts = self.parts
        while parts and size_bytes < WRITE_BATCH_BYTES:
            head = parts[0]
            if not isinstance(head, FileRange):
                chunk = head
                parts.popleft()
            elif self._is_sent_as_file(head) or self._is_cold(head):
                break
            else:
                chunk = head.read(WRITE_BATCH_BYTES - size_bytes)
                if not head.bytes_left:
                    parts.popleft()
            batch.append(chunk)
            size_bytes += len(chunk)
        self._write(batch[0] if len(batch) == 1 else b"".join(batch))
        return size_bytes

    def _warm_up(self, head: FileRange) -> None:
        self._metrics.cold_reads += 1
        self._is_warming = True
        self._read_ahead(head.warm_up, self._on_warmed_up)

    def _on_warmed_up(self) -> None:
        self._is_warming = False
        self._wake()

    def _write(self, data: Data) -> None:
        self._metrics.bytes_out += len(data)
        self._transport.write(data)


def _plain_socket_descriptor(transport: asyncio.Transport) -> int:
    """Return the socket's descriptor, or -1 if there is no socket or it carries TLS."""
    if transport.get_extra_info("sslcontext") is not None:
        return -1
    socket = transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())
