"""Requests that wait for the end of the transaction before (edge).

A producer begins its next transaction as soon as the decision on the last one is durable, mostly
before its markers are written. It would be refused with CONCURRENT_TRANSACTIONS and repeat its
request 20 to 100 ms later, when a few are enough (KAFKA-9878).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker.transactions.transaction import Transaction

HOLD_S: Final = 0.05
"""Longest wait of a request; after it the producer must repeat the request."""
MAX_HELD_PER_ID: Final = 8
"""A producer has one such request in flight; others are of earlier connections."""

Attempt = Callable[[bool], None]
"""Handles a request; it may be held again if the argument is true."""


class _Held:
    """One request."""

    def __init__(self, attempt: Attempt, is_gone: Callable[[], bool]) -> None:
        self.attempt = attempt
        self.is_gone = is_gone
        self.timer: asyncio.TimerHandle


class HeldRequests:
    """The waiting requests, by transactional id; each is attempted once more."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: dict[Transaction, list[_Held]] = {}

    def __len__(self) -> int:
        return sum(len(each) for each in self._held.values())

    def add(self, transaction: Transaction, attempt: Attempt, is_gone: Callable[[], bool]) -> bool:
        """Hold a request until `release`, at most for `HOLD_S`; return False if it is too many.

        A request whose connection is lost by then (`is_gone`) is dropped: carried out late, it
        could hit a later transaction (KAFKA-17754).
        """
        waiting = self._held.setdefault(transaction, [])
        if len(waiting) >= MAX_HELD_PER_ID:
            return False
        held = _Held(attempt, is_gone)
        held.timer = self._loop.call_later(HOLD_S, self._expire, transaction, held)
        waiting.append(held)
        return True

    def release(self, transaction: Transaction) -> None:
        """Attempt the requests to an id again, as its transaction has ended."""
        for held in self._held.pop(transaction, ()):
            held.timer.cancel()
            self._attempt(held)

    def _expire(self, transaction: Transaction, held: _Held) -> None:
        waiting = self._held[transaction]
        waiting.remove(held)
        if not waiting:
            del self._held[transaction]
        self._attempt(held)

    def _attempt(self, held: _Held) -> None:
        if not held.is_gone():
            held.attempt(False)
