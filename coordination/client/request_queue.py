"""Requests of one session in order: held back, or sent and pending (edge).

Invariant: until its future is done, a request is in one of two queues: held back for a connection,
or sent and pending. Servers reply in order, so a reply belongs to the oldest request sent.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from coordination.errors import (
    ConnectionLossError,
    JuteError,
    OperationError,
    ResponseTooLargeError,
)

MAX_QUEUED_REQUESTS: Final = 10_000
MAX_XID: Final = 0x7FFFFFFF


class Pending(NamedTuple):
    """A request that is pending or held back."""

    xid: int
    op: int
    body: bytes
    path: str
    future: "asyncio.Future[Any]"
    convert: Callable[[bytes], Any]
    on_reply_code: "Callable[[int], None] | None"


class RequestQueue:
    """Requests without a reply; used by one client, in its loop."""

    def __init__(self) -> None:
        self._sent: deque[Pending] = deque()
        self._held: deque[Pending] = deque()
        self._xid = 0

    @property
    def has_room(self) -> bool:
        """Whether another request can be held back."""
        return len(self._held) < MAX_QUEUED_REQUESTS

    def next_xid(self) -> int:
        """Return the xid of the next request; after `MAX_XID` they restart at 1."""
        self._xid = self._xid % MAX_XID + 1
        return self._xid

    def hold(self, pending: Pending) -> None:
        """Hold a request back until there is a connection."""
        self._held.append(pending)

    def take_held(self) -> list[Pending]:
        """Remove and return the held requests, to be sent now, without the cancelled ones."""
        held, self._held = self._held, deque()
        return [pending for pending in held if not pending.future.cancelled()]

    def on_sent(self, pending: Pending) -> None:
        """Record that a request was sent."""
        self._sent.append(pending)

    def on_reply(self, xid: int, err: int, payload: bytes) -> None:
        """Complete the oldest request sent with its reply.

        Raises:
            JuteError: the reply belongs to another request; close the connection.
        """
        if not self._sent or self._sent[0].xid != xid:
            raise JuteError(f"the server sent the reply {xid} out of order")
        pending = self._sent.popleft()
        if pending.on_reply_code is not None:
            pending.on_reply_code(err)
        if pending.future.done():
            return
        if err:
            pending.future.set_exception(OperationError.of(err, pending.path))
            return
        try:
            pending.future.set_result(pending.convert(payload))
        except (OperationError, JuteError) as error:
            pending.future.set_exception(error)

    def fail_sent(self, xid: int, size_bytes: int, limit_bytes: int) -> None:
        """Fail the sent request `xid`, whose reply is too large; the connection ends with it."""
        for pending in self._sent:
            if pending.xid == xid:
                fail(pending.future, ResponseTooLargeError(size_bytes, limit_bytes, pending.path))

    def lose_sent(self) -> None:
        """Fail all sent requests, because their replies are lost; they may have been applied."""
        sent, self._sent = self._sent, deque()
        for pending in sent:
            fail(pending.future, ConnectionLossError(path=pending.path))

    def fail_held(self, error: OperationError) -> None:
        """Fail all held requests with `error`."""
        for pending in self.take_held():
            fail(pending.future, error)

    def fail_all(self, error: OperationError) -> None:
        """Fail all requests; after a lost connection, the sent ones may have been applied."""
        if isinstance(error, ConnectionLossError):
            self.lose_sent()
        sent, self._sent = self._sent, deque()
        for pending in sent:
            fail(pending.future, error)
        self.fail_held(error)


def fail(future: "asyncio.Future[Any]", error: OperationError) -> None:
    """Fail `future` with `error`, unless it is done."""
    if not future.done():
        future.set_exception(error)
        # The caller may never await the result: mark the exception as retrieved.
        future.exception()
