"""Queue of the controller's events (decision): processed one at a time, in order.

A change event equal to a pending one is dropped: the pending event reads the znodes when it is
processed, and sees both changes. Events with a result are never dropped.
"""

from collections import deque
from typing import Final, Generic, TypeVar

from controller import events as e

_MERGED: Final = (
    e.Reelect,
    e.ElectionDue,
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
    e.RereadDue,
    e.RebalanceDue,
    e.UncleanElectionEnabled,
)
_T = TypeVar("_T")


class EventQueue(Generic[_T]):
    """Pending events, each with a value of their owner, such as the future of its result."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[e.Event, _T]] = deque()
        self._known: set[e.Event] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def has(self, *kinds: type[e.Event]) -> bool:
        """Whether an event of one of these kinds is pending."""
        return any(isinstance(event, kinds) for event, _ in self._waiting)

    def put(self, event: e.Event, value: _T) -> bool:
        """Append `event`; return False if an equal event is pending and it was dropped."""
        if isinstance(event, _MERGED):
            if event in self._known:
                return False
            self._known.add(event)
        self._waiting.append((event, value))
        return True

    def take(self) -> tuple[e.Event, _T]:
        """Remove and return the oldest event; an equal event can then be queued again."""
        event, value = self._waiting.popleft()
        if isinstance(event, _MERGED):
            self._known.discard(event)
        return event, value

    def expire(self, value: _T) -> list[tuple[e.Event, _T]]:
        """Replace all pending events with Expire, and return the dropped ones."""
        dropped = list(self._waiting)
        self._waiting.clear()
        self._known.clear()
        self._waiting.append((e.Expire(), value))
        return dropped
