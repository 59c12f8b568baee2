"""Requests of one connection that are not answered yet, in the order of their arrival (decision).

Invariant: responses leave in request order, whatever the order in which they become complete.
"""

from __future__ import annotations

from collections import deque

from broker.network.request import Request


class ResponseQueue(deque[Request]):
    """What is in flight on one connection; the head is the next to be answered.

    A request takes its place by `append` when it is read, long before it has a reply.
    """

    __slots__ = ()

    def take_done(self) -> Request | None:
        """Remove and return the head if its reply is complete."""
        return self.popleft() if self and self[0].reply.is_done else None

    @property
    def is_owed(self) -> bool:
        """Whether the client waits for us: the head has no complete reply."""
        return bool(self) and not self[0].reply.is_done
