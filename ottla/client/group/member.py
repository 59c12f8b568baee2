"""The identity of this consumer in its group, and its reactions to errors. Decision: no I/O.

`Member` follows the responses of the coordinator; `judge` maps an error to the next step.
Invariant: `generation` is NO_GENERATION unless the coordinator has confirmed this member in that
generation and has not removed it since.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.messages.group_membership import JoinGroupResponse
from ottla.client.errors import BrokerError, OttlaError
from ottla.client.group.assignor import NO_GENERATION, Assignor, MemberId

NO_MEMBER_ID: Final[MemberId] = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """The author of a commit: a member of a generation, by default a client without membership."""

    member_id: MemberId = NO_MEMBER_ID
    generation: int = NO_GENERATION


class Verdict(enum.Enum):
    """The next step after an error."""

    RETRY = "back off, then retry"
    FIND = "look up the coordinator, then retry"
    REJOIN = "join again: the group is rebalancing"
    LOST = "join as a new member: the group has removed this one"
    FATAL = "give up, and raise the error in the next read"


_VERDICTS: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: Verdict.RETRY,
    ErrorCode.MEMBER_ID_REQUIRED: Verdict.REJOIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.FIND,
    ErrorCode.NOT_COORDINATOR: Verdict.FIND,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.LOST,
    ErrorCode.ILLEGAL_GENERATION: Verdict.LOST,
}


def judge(error: OttlaError) -> Verdict:
    """Return the next step of a member after `error`."""
    if not isinstance(error, BrokerError):
        # The connection failed; a new one will show whether the coordinator did, too.
        return Verdict.FIND if error.retriable else Verdict.FATAL
    verdict = _VERDICTS.get(error.code)
    if verdict is not None:
        return verdict
    return Verdict.RETRY if error.retriable else Verdict.FATAL


class Member:
    """The state of this consumer in its group, as confirmed by the coordinator."""

    def __init__(self) -> None:
        self.member_id: MemberId = NO_MEMBER_ID
        self.generation = NO_GENERATION
        self.last_generation = NO_GENERATION
        """Generation in which it got its partitions; assignors report it to the leader."""

    @property
    def is_confirmed(self) -> bool:
        """Whether this consumer is a member of a generation."""
        return self.generation != NO_GENERATION

    def on_named(self, member_id: MemberId) -> None:
        """Adopt the id that the coordinator assigns before it admits this member (KIP-394)."""
        self.member_id = member_id

    def on_joined(self, response: JoinGroupResponse) -> None:
        """Adopt a new generation."""
        self.member_id = response.member_id
        self.generation = response.generation_id

    def on_assigned(self) -> None:
        """Record that the current partitions belong to the current generation."""
        self.last_generation = self.generation

    def on_lost(self, code: ErrorCode) -> None:
        """Leave the generation; also drop the member id unless it is still valid."""
        self.generation = self.last_generation = NO_GENERATION
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = NO_MEMBER_ID


def chosen_assignor(assignors: Sequence[Assignor], name: str | None) -> Assignor | None:
    """Return the assignor that the group agreed on, None if this member does not have it."""
    return next((each for each in assignors if each.name == name), None)
