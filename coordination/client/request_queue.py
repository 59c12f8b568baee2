"""The requests of one session, in the order of asking: held, sent, answered (edge: futures).

Invariant: a request is in one of two queues until its future is done: held back for a connection,
or sent and not answered. Servers answer in order, so an answer belongs to the first that was sent.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from coordination.errors import ConnectionLossError, JuteError, OperationError

MAX_QUEUED_REQUESTS: Final = 10_000
MAX_XID: Final = 0x7FFFFFFF


class Pending(NamedTuple):
    """A request whose answer is awaited, or that waits to be sent."""

    xid: int
    op: int
    body: bytes
    path: str
    future: "asyncio.Future[Any]"
    convert: Callable[[bytes], Any]
    on_answer: "Callable[[int], None] | None"


class RequestQueue:
    """What was asked and is not answered. Used by one client, in its loop."""

    def __init__(self) -> None:
        self._sent: deque[Pending] = deque()
        self._held: deque[Pending] = deque()
        self._xid = 0

    @property
    def has_room(self) -> bool:
        """Whether another request may be held back."""
        return len(self._held) < MAX_QUEUED_REQUESTS

    def next_xid(self) -> int:
        """Return the number of the next request; they begin anew after the largest."""
        self._xid = self._xid % MAX_XID + 1
        return self._xid

    def hold(self, pending: Pending) -> None:
        """Keep a request until there is a connection."""
        self._held.append(pending)

    def take_held(self) -> list[Pending]:
        """Return what was held back, to be sent now."""
        held, self._held = self._held, deque()
        return [*held]

    def on_sent(self, pending: Pending) -> None:
        """Note that a request has left, and wait for its answer."""
        self._sent.append(pending)

    def answer(self, xid: int, err: int, payload: bytes) -> None:
        """Hand an answer to whoever asked first.

        Raises:
            JuteError: it answers something else; the connection is of no use any more.
        """
        if not self._sent or self._sent[0].xid != xid:
            raise JuteError(f"the server answered {xid} out of turn")
        pending = self._sent.popleft()
        if pending.on_answer is not None:
            pending.on_answer(err)
        if pending.future.done():
            return
        if err:
            pending.future.set_exception(OperationError.of(err, pending.path))
            return
        try:
            pending.future.set_result(pending.convert(payload))
        except (OperationError, JuteError) as error:
            pending.future.set_exception(error)

    def lose_sent(self) -> None:
        """Tell whoever waits for an answer that none will come: it may have been carried out."""
        sent, self._sent = self._sent, deque()
        for pending in sent:
            fail(pending.future, ConnectionLossError(path=pending.path))

    def fail_held(self, error: OperationError) -> None:
        """End what was not sent with `error`."""
        for pending in self.take_held():
            fail(pending.future, error)

    def fail_all(self, error: OperationError) -> None:
        """End everything; after a lost connection, what was sent may have been carried out."""
        if isinstance(error, ConnectionLossError):
            self.lose_sent()
        sent, self._sent = self._sent, deque()
        for pending in sent:
            fail(pending.future, error)
        self.fail_held(error)


def fail(future: "asyncio.Future[Any]", error: OperationError) -> None:
    """End `future` with `error`, unless it has ended."""
    if not future.done():
        future.set_exception(error)
        # Somebody who only wanted to send may never look at the answer.
        future.exception()
