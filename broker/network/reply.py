"""The one answer to a request (decision).

A handler returns a `Reply`, complete or not. Invariants: it is completed or cancelled once and
never both; completing one only marks its connection, whose output leaves later in the loop's
turn, so nobody's I/O runs, and no error of another's connection rises, in the stack of the
completer; a cancelled one may still be completed, into the void.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeAlias


class ReplyState(enum.Enum):
    """How far an answer is."""

    PENDING = "pending"
    MESSAGE = "message"
    NO_RESPONSE = "no response"
    CLOSE = "close"
    CANCELLED = "cancelled"


_PENDING = ReplyState.PENDING
_MESSAGE = ReplyState.MESSAGE
_CANCELLED = ReplyState.CANCELLED


EncodedMessage: TypeAlias = bytes
"""A response's body, already encoded in the version of its request, without its header."""


class Reply:
    """What is sent back, now or later; see the module's invariants."""

    __slots__ = ("_on_cancel", "_on_done", "close_reason", "is_done", "message", "state")

    def __init__(self, message: object | None = None) -> None:
        """Make a reply that holds `message`, or waits for it.

        A message is a response of kafkawire, or an `EncodedMessage`.
        """
        self.message = message
        # Whether it can leave: it has a message, or is known to need none.
        self.is_done = message is not None
        self.state = _MESSAGE if self.is_done else _PENDING
        self.close_reason = ""
        self._on_done: Callable[[], None] | None = None
        self._on_cancel: list[Callable[[], object]] | None = None

    @classmethod
    def none(cls) -> Reply:
        """Return the reply that sends nothing (acks=0) and keeps its place in the order."""
        reply = cls()
        reply.is_done, reply.state = True, ReplyState.NO_RESPONSE
        return reply

    @classmethod
    def close(cls, reason: str) -> Reply:
        """Return the reply that closes the connection, after the replies before it have left."""
        reply = cls()
        reply.is_done, reply.state = True, ReplyState.CLOSE
        reply.close_reason = reason
        return reply

    @property
    def cancelled(self) -> bool:
        """Whether its connection was lost before it was complete."""
        return self.state is _CANCELLED

    def complete(self, message: object) -> None:
        """Answer with `message`. Nothing happens if the reply was cancelled.

        Raises:
            AssertionError: it was complete already: a bug of the caller.
        """
        if self._finish(_MESSAGE):
            self.message = message
            self._announce()

    def complete_by_closing(self, reason: str) -> None:
        """Answer by closing the connection, after the replies before this one have left.

        Raises:
            AssertionError: it was complete already: a bug of the caller.
        """
        if self._finish(ReplyState.CLOSE):
            self.close_reason = reason
            self._announce()

    def follow(self, other: Reply) -> None:
        """Become what `other` is, now or when it is complete; to cancel this one cancels it."""
        if other.is_done:
            self._become(other)
        else:
            other.on_done(lambda: self._become(other))
            self.on_cancel(other.cancel)

    def cancel(self) -> None:
        """Tell those who work on the answer that nobody waits for it; once, if not complete.

        Every callback runs, also when another one raises; then the error rises from here.
        """
        if self.state is not _PENDING:
            return
        self.state = _CANCELLED
        self._on_done = None
        callbacks, self._on_cancel = self._on_cancel, None
        with ExitStack() as stack:
            for callback in reversed(callbacks or ()):
                stack.callback(callback)

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Have `callback` called when the connection is lost first; at once if it is already.

        It must only forget: no I/O, no answer to others.
        """
        if self.state is _CANCELLED:
            callback()
        elif self.state is _PENDING:
            self._on_cancel = [*(self._on_cancel or ()), callback]

    def on_done(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when a pending reply is complete. One only: its connection."""
        assert self.state is _PENDING, "the reply is not to come"
        assert self._on_done is None, "one connection waits for a reply"
        self._on_done = callback

    def _become(self, other: Reply) -> None:
        if self._finish(other.state):
            self.message, self.close_reason = other.message, other.close_reason
            self._announce()

    def _finish(self, state: ReplyState) -> bool:
        if self.state is _CANCELLED:
            return False
        assert self.state is _PENDING, f"a reply completes once; this one is {self.state.value}"
        self.is_done, self.state = True, state
        self._on_cancel = None
        return True

    def _announce(self) -> None:
        callback, self._on_done = self._on_done, None
        if callback is not None:
            callback()
