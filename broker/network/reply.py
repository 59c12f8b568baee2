"""The reply to a request, complete or pending (decision).

Each handler returns a `Reply`. Invariants: a reply is completed once or cancelled once, never both.
Completion only marks the connection, which sends its output later in the loop's turn; so no I/O and
no error of a connection occurs in the call stack of the completing code. Completing a cancelled
reply has no effect.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, TypeAlias


class ReplyState(enum.Enum):
    """State of a reply."""

    PENDING = "pending"
    MESSAGE = "message"
    NO_RESPONSE = "no response"
    CLOSE = "close"
    CANCELLED = "cancelled"


_PENDING: Final = ReplyState.PENDING
_MESSAGE: Final = ReplyState.MESSAGE
_CANCELLED: Final = ReplyState.CANCELLED


EncodedMessage: TypeAlias = bytes
"""A response's body, already encoded in the version of its request, without its header."""


class Reply:
    """The response to a request, now or later; see the module's invariants."""

    __slots__ = ("_on_cancel", "_on_done", "close_reason", "message", "state")

    def __init__(self, message: object | None = None) -> None:
        """Make a reply with `message`, or a pending one without it.

        A message is a response of kafkawire, or an `EncodedMessage`.
        """
        self.message = message
        self.state = _PENDING if message is None else _MESSAGE
        self.close_reason = ""
        self._on_done: Callable[[], None] | None = None
        self._on_cancel: list[Callable[[], object]] | None = None

    @classmethod
    def none(cls) -> Reply:
        """Return a reply that sends nothing (acks=0), but keeps its place in the queue."""
        reply = cls()
        reply.state = ReplyState.NO_RESPONSE
        return reply

    @classmethod
    def close(cls, reason: str) -> Reply:
        """Return a reply that closes the connection after the earlier responses are sent."""
        reply = cls()
        reply.state = ReplyState.CLOSE
        reply.close_reason = reason
        return reply

    @property
    def is_done(self) -> bool:
        """Whether the connection can act on it: it has a message, or is known to need none."""
        return self.state is not _PENDING and self.state is not _CANCELLED

    @property
    def cancelled(self) -> bool:
        """Whether the connection was lost before the reply was complete."""
        return self.state is _CANCELLED

    def complete(self, message: object) -> None:
        """Respond with `message`. A cancelled reply stays as it is.

        Raises:
            AssertionError: the reply was complete already: a bug of the caller.
        """
        if self._finish(_MESSAGE):
            self.message = message
            self._announce()

    def complete_by_closing(self, reason: str) -> None:
        """Close the connection after the earlier responses are sent.

        Raises:
            AssertionError: the reply was complete already: a bug of the caller.
        """
        if self._finish(ReplyState.CLOSE):
            self.close_reason = reason
            self._announce()

    def follow(self, other: Reply) -> None:
        """Take the result of `other`, now or on its completion; cancelling this cancels `other`."""
        if other.is_done:
            self._become(other)
        else:
            other.on_done(lambda: self._become(other))
            self.on_cancel(other.cancel)

    def cancel(self) -> None:
        """Run the callbacks of `on_cancel`, because the connection is lost; once, while pending.

        Every callback runs, even if another one raises; the error is raised afterwards.
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
        """Call `callback` if the connection is lost before completion; at once if it is lost.

        The callback must only drop state: no I/O, no completion of other replies.
        """
        if self.state is _CANCELLED:
            callback()
        elif self.state is _PENDING:
            self._on_cancel = [*(self._on_cancel or ()), callback]

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` when a pending reply completes. Only its connection may do this."""
        assert self.state is _PENDING, "the reply is not pending"
        assert self._on_done is None, "only one connection may wait for a reply"
        self._on_done = callback

    def _become(self, other: Reply) -> None:
        if self._finish(other.state):
            self.message, self.close_reason = other.message, other.close_reason
            self._announce()

    def _finish(self, state: ReplyState) -> bool:
        if self.state is _CANCELLED:
            return False
        assert self.state is _PENDING, (
            f"a reply completes once, but its state is {self.state.value}"
        )
        self.state = state
        self._on_cancel = None
        return True

    def _announce(self) -> None:
        callback, self._on_done = self._on_done, None
        if callback is not None:
            callback()


def after(reply: Reply, change: Callable[[Any], object]) -> Reply:
    """Return a reply with the result of `change` for the response of `reply`."""
    if reply.is_done:
        return reply if reply.message is None else Reply(change(reply.message))
    changed = Reply()

    def finish() -> None:
        if reply.message is None:
            changed.follow(reply)
        else:
            changed.complete(change(reply.message))

    reply.on_done(finish)
    changed.on_cancel(reply.cancel)
    return changed
