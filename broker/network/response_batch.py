"""The responses that one connection sends together (decision)."""

from __future__ import annotations

from typing import Final

from broker.network.metrics import NetworkMetrics
from broker.network.reply import ReplyState
from broker.network.response import Part, bytes_in_memory, encode_reply
from broker.network.response_queue import ResponseQueue
from kafkawire.units import KIB

# Limit of encoded bytes. Further replies stay unencoded, so that a slow client costs no more memory
# than this, except for one larger message.
BATCH_BYTES: Final = 256 * KIB
# Bound once, because member lookup in an enum runs Python code.
_MESSAGE: Final = ReplyState.MESSAGE


class ResponseBatch:
    """The complete replies at the head of `in_flight`, removed from it and encoded."""

    __slots__ = ("close_reason", "has_regions", "parts", "size_bytes")

    def __init__(self, in_flight: ResponseQueue, metrics: NetworkMetrics, now_s: float) -> None:
        self.parts: list[Part] = []
        # Without regions all parts are bytes.
        self.has_regions = False
        # Size of the parts in memory.
        self.size_bytes = 0
        # If not None, the connection must close after these responses.
        self.close_reason: str | None = None
        requests = metrics.requests
        while self.size_bytes < BATCH_BYTES and (request := in_flight.take_done()):
            header, reply = request.header, request.reply
            if reply.state is _MESSAGE:
                self._add(encode_reply(header, reply.message))
            elif reply.state is ReplyState.CLOSE:
                self.close_reason = reply.close_reason
                break
            requests[header.api_key].on_answered(now_s - request.received_at_s)

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
