"""Requests of one connection that are not answered yet, in the order of their arrival (decision).

Invariant: responses leave in request order, whatever the order in which they become complete.
"""

from __future__ import annotations

from collections import deque

from broker.request_channel import Request


class ResponseQueue:
    """What is in flight on one connection; the head is the next to be answered."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def append(self, request: Request) -> None:
        """Reserve the next place in the order for `request`."""
        self._requests.append(request)

    def take_done(self) -> Request | None:
        """Remove and return the head if its reply is complete."""
        requests = self._requests
        if not requests:
            return None
        reply = requests[0].reply
        if reply is None or not reply.is_done:
            return None
        return requests.popleft()

    @property
    def is_owed(self) -> bool:
        """Whether the client waits for us: the head has no complete reply."""
        if not self._requests:
            return False
        reply = self._requests[0].reply
        return reply is None or not reply.is_done

    def clear(self) -> list[Request]:
        """Remove and return all: nobody waits for them any more."""
        requests = list(self._requests)
        self._requests.clear()
        return requests
