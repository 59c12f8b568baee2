"""The latest connection of each sender of markers, and markers that are too late (decision).

A coordinator has one connection to a broker. If a request for markers stays unanswered, it closes
the connection and sends the markers again on a new one. The network may still deliver the first
request after that, and even after the producer has begun its next transaction, which the old
marker would end (KAFKA-19446). So a broker writes no markers that arrive on an earlier connection
than others of their sender. Kafka 3.9 writes them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

MAX_SENDERS: Final = 1000
"""Limit of known senders; the one that has been silent for longest is forgotten first."""

Sender = tuple[str, str | None]
"""Address and client id. The tools of two administrators may have the same client id."""


class MarkerSenders:
    """The latest connection of each sender."""

    def __init__(self) -> None:
        self._latest: OrderedDict[Sender, int] = OrderedDict()

    def note(self, sender: Sender, connection: int) -> bool:
        """Note a request on `connection`; return False if `sender` has used a later one before.

        Later connections have larger numbers.
        """
        if not self.is_latest(sender, connection):
            return False
        self._latest[sender] = connection
        self._latest.move_to_end(sender)
        if len(self._latest) > MAX_SENDERS:
            self._latest.popitem(last=False)
        return True

    def is_latest(self, sender: Sender, connection: int) -> bool:
        """Whether `sender` has used no later connection."""
        return self._latest.get(sender, connection) <= connection
