"""What waits for the controller (decision): one at a time, in order.

An event that says the same as one that waits is dropped: the one that waits will read the nodes
when it runs, and see what both would. Events that are asked for an answer are never dropped.
"""

from collections import deque
from typing import Final, Generic, TypeVar

from controller import events as e

_TOLD_ONCE: Final = (
    e.Reelect,
    e.ControllerChange,
    e.BrokerChange,
    e.BrokerModification,
    e.TopicChange,
    e.PartitionModification,
    e.TopicDeletion,
    e.ReassignmentNode,
    e.PreferredElectionNode,
    e.IsrChange,
    e.LogDirEvent,
    e.RebalanceDue,
    e.UncleanElectionEnabled,
)
_T = TypeVar("_T")


class EventQueue(Generic[_T]):
    """Events with whatever their owner keeps beside them, such as who waits for the answer."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[e.Event, _T]] = deque()
        self._known: set[e.Event] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, event: e.Event, beside: _T) -> bool:
        """Let `event` wait; False if it need not, because its like does."""
        if isinstance(event, _TOLD_ONCE):
            if event in self._known:
                return False
            self._known.add(event)
        self._waiting.append((event, beside))
        return True

    def take(self) -> tuple[e.Event, _T]:
        """Return the oldest event; from now on its like waits again."""
        event, beside = self._waiting.popleft()
        if isinstance(event, _TOLD_ONCE):
            self._known.discard(event)
        return event, beside

    def expire(self, beside: _T) -> list[tuple[e.Event, _T]]:
        """Let Expire be the only event that waits, and return the others: they are void."""
        dropped = list(self._waiting)
        self._waiting.clear()
        self._known.clear()
        self._waiting.append((e.Expire(), beside))
        return dropped
