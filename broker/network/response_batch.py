"""The responses of one connection that leave together (decision)."""

from __future__ import annotations

from typing import Final

from broker.network.limits import KIB
from broker.network.metrics import NetworkMetrics
from broker.network.reply import ReplyState
from broker.network.response import Part, bytes_in_memory, encode_answer
from broker.network.response_queue import ResponseQueue

# What is encoded at a time; the rest waits as messages, so that a client that reads slowly costs
# no more memory than this, save for one message that is larger.
BATCH_BYTES: Final = 256 * KIB
# Found once: an enum looks its members up by Python code.
_MESSAGE: Final = ReplyState.MESSAGE


class ResponseBatch:
    """What is complete at the head of `in_flight`, taken off it and encoded."""

    __slots__ = ("close_reason", "has_regions", "parts", "size_bytes")

    def __init__(self, in_flight: ResponseQueue, metrics: NetworkMetrics, now_s: float) -> None:
        self.parts: list[Part] = []
        # Without regions all parts are bytes.
        self.has_regions = False
        # Of the parts in memory.
        self.size_bytes = 0
        # Not None: the connection ends behind these responses.
        self.close_reason: str | None = None
        requests = metrics.requests
        while self.size_bytes < BATCH_BYTES and (request := in_flight.take_done()):
            header, reply = request.header, request.reply
            if reply.state is _MESSAGE:
                self._add(encode_answer(header, reply.message))
            elif reply.state is ReplyState.CLOSE:
                self.close_reason = reply.close_reason
                break
            requests[header.api_key].on_answered(now_s - request.received_at_s)

    @property
    def is_full(self) -> bool:
        """Whether more may be complete already."""
        return self.size_bytes >= BATCH_BYTES

    def _add(self, answer: list[Part]) -> None:
        self.parts += answer
        if len(answer) > 1:
            self.has_regions = True
            self.size_bytes += bytes_in_memory(answer)
        else:
            self.size_bytes += len(answer[0])  # type: ignore[arg-type]
