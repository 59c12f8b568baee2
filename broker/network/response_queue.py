"""Requests in flight on one connection, in order of arrival (decision).

Invariant: responses are sent in request order, regardless of the order of their completion.
"""

from __future__ import annotations

from collections import deque

from broker.network.request import Request


class ResponseQueue(deque[Request]):
    """Requests in flight on one connection; the head is the next to be answered.

    A request is appended when it is read, long before it has a reply.
    """

    __slots__ = ()

    def take_done(self) -> Request | None:
        """Remove and return the head if its reply is complete."""
        return self.popleft() if self and self[0].reply.is_done else None

    @property
    def is_owed(self) -> bool:
        """Whether the client waits for the broker: the reply of the head is pending."""
        return bool(self) and not self[0].reply.is_done
