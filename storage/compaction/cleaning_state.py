"""The state table of one partition's cleaning (decision).

    idle         start -> in progress     pause -> paused(1)
    in progress  done  -> idle            pause -> aborted(1)
    aborted(n)   done  -> paused(n), or idle if n is 0      pause -> aborted(n+1)   resume -> n-1
    paused(n)    pause -> paused(n+1)     resume -> paused(n-1), idle at 0

Unlike in Kafka, a pause does not wait until a running cleaning has stopped. The results of an
aborted cleaning are discarded, and the next one starts only after the aborted one has ended.
Source: LogCleanerManager.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kafkawire.ids import TopicPartition


class Phase(Enum):
    """Phase of a partition's cleaning."""

    IDLE = "idle"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    PAUSED = "paused"


class Event(Enum):
    """Input of the state machine."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    DONE = "done"


class InvalidTransition(Exception):  # noqa: N818 - the field's name for it
    """An event that the table does not allow: a bug, not a failure of the environment."""


@dataclass(frozen=True, slots=True)
class CleaningState:
    """A phase, and the number of pauses that are not resumed yet."""

    phase: Phase
    pause_count: int = 0

    def on(self, event: Event) -> "CleaningState":
        """Return the state after `event`.

        Raises:
            InvalidTransition: the table does not allow it.
        """
        count = self.pause_count
        match self.phase, event:
            case Phase.IDLE, Event.START:
                return CleaningState(Phase.IN_PROGRESS)
            case Phase.IDLE | Phase.PAUSED, Event.PAUSE:
                return CleaningState(Phase.PAUSED, count + 1)
            case Phase.IN_PROGRESS | Phase.ABORTED, Event.PAUSE:
                return CleaningState(Phase.ABORTED, count + 1)
            case Phase.IN_PROGRESS, Event.DONE:
                return IDLE
            case Phase.ABORTED, Event.DONE:
                return CleaningState(Phase.PAUSED, count) if count else IDLE
            case Phase.ABORTED, Event.RESUME if count:
                return CleaningState(Phase.ABORTED, count - 1)
            case Phase.PAUSED, Event.RESUME:
                return CleaningState(Phase.PAUSED, count - 1) if count > 1 else IDLE
        raise InvalidTransition(f"{event.value} while {self.phase.value}, paused {count} times")


IDLE: Final = CleaningState(Phase.IDLE)


class CleaningStates:
    """The states of all partitions; a partition without an entry is idle."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, CleaningState] = {}

    def __getitem__(self, partition: TopicPartition) -> CleaningState:
        return self._states.get(partition, IDLE)

    def on(self, event: Event, partition: TopicPartition) -> CleaningState:
        """Apply an event to a partition, and return the state after it.

        Raises:
            InvalidTransition: the table does not allow it.
        """
        state = self[partition].on(event)
        if state == IDLE:
            self._states.pop(partition, None)
        else:
            self._states[partition] = state
        return state
