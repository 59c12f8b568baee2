"""The responses that one connection sends together, as bytes and file regions (decision).

Invariant: responses leave in request order, regardless of the order of their completion.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol, cast

from broker.network.metrics import NetworkMetrics
from broker.network.reply import EncodedMessage, ReplyState
from broker.network.request import Request
from kafkawire.headers import RequestHeader
from kafkawire.native import encode_response_parts, frame_response
from kafkawire.units import KIB

# Limit of encoded bytes. Further replies stay unencoded, so that a slow client costs no more memory
# than this, except for one larger message.
BATCH_BYTES: Final = 256 * KIB
# Bound once, because member lookup in an enum runs Python code.
_MESSAGE: Final = ReplyState.MESSAGE


class OpenFile(Protocol):
    """A file that stays readable while it is referenced, even if it is deleted meanwhile."""

    def fileno(self) -> int:
        """File descriptor."""


class Region(Protocol):
    """A range of a file that is part of a response."""

    @property
    def file(self) -> OpenFile:
        """File that holds the bytes."""

    @property
    def position(self) -> int:
        """Position of the first byte."""

    @property
    def size_bytes(self) -> int:
        """Number of bytes promised to the client."""


Data = bytes | bytearray | memoryview
Part = Data | Region
# A tuple, because isinstance() takes five times as long with a union.
DATA_TYPES: Final = (bytes, bytearray, memoryview)


class ResponseBatch:
    """The complete replies at the head of `in_flight`, removed from it and encoded.

    `in_flight` holds the requests of a connection in their order, from when they are read.
    """

    __slots__ = ("close_reason", "has_regions", "parts", "size_bytes")

    def __init__(self, in_flight: deque[Request], metrics: NetworkMetrics, now_s: float) -> None:
        self.parts: list[Part] = []
        # Without regions all parts are bytes.
        self.has_regions = False
        # Size of the parts in memory.
        self.size_bytes = 0
        # If not None, the connection must close after these responses.
        self.close_reason: str | None = None
        requests = metrics.requests
        while in_flight and self.size_bytes < BATCH_BYTES:
            request = in_flight[0]
            header, reply = request.header, request.reply
            if not reply.is_done:
                break
            # Before encoding, so that a reply that cannot be encoded is tried only once.
            in_flight.popleft()
            if reply.state is _MESSAGE:
                self._add(encode_reply(header, reply.message))
            elif reply.state is ReplyState.CLOSE:
                self.close_reason = reply.close_reason
                break
            metrics_of_api = requests[header.api_key]
            metrics_of_api.on_answered(now_s - request.received_at_s)
            if request.timing is not None:
                metrics_of_api.on_timed(request.timing, request.received_at_s, now_s)

    @property
    def is_full(self) -> bool:
        """Whether the limit was reached, so that more replies may be complete."""
        return self.size_bytes >= BATCH_BYTES

    def _add(self, response: list[Part]) -> None:
        self.parts += response
        if len(response) > 1:
            self.has_regions = True
            self.size_bytes += bytes_in_memory(response)
        else:
            self.size_bytes += len(response[0])  # type: ignore[arg-type]


def encode_reply(header: RequestHeader, message: object) -> list[Part]:
    """Return the response to the request with `header`: one frame, including its size field.

    Raises:
        EncodeError: the message does not fit the request's version: a bug of the handler.
    """
    if isinstance(message, EncodedMessage):
        return [frame_response(header, message)]
    # The records of a message are bytes or a file region, as chosen by its handler.
    parts = encode_response_parts(
        header.api_key, header.api_version, header.correlation_id, message
    )
    return cast(list[Part], parts)


def bytes_in_memory(parts: list[Part]) -> int:
    """Return the total size of the parts that are not file regions."""
    size_bytes = 0
    for part in parts:
        if isinstance(part, DATA_TYPES):
            size_bytes += len(part)
    return size_bytes
