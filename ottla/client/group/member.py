"""This consumer as a member of its group: who it is there, and what the answers mean to it.

Decision: no I/O. `Member` changes with the answers of the coordinator; `judge` says what an error
means. Invariant: `generation` is NO_GENERATION unless the coordinator has confirmed this member in
it and has not taken that back.
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
    """The author of a commit: a member in a generation, by default a client without membership."""

    member_id: MemberId = NO_MEMBER_ID
    generation: int = NO_GENERATION


class Verdict(enum.Enum):
    """What to do after an error."""

    RETRY = "wait a little, then ask again"
    FIND = "find the coordinator, then ask again"
    REJOIN = "join again: the group is being rebalanced"
    LOST = "join anew: the group has gone on without this member"
    FATAL = "give up, and tell whoever reads"


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
    """Return what a member does about `error`."""
    if not isinstance(error, BrokerError):
        # The connection failed; the next one shows whether the coordinator did.
        return Verdict.FIND if error.retriable else Verdict.FATAL
    verdict = _VERDICTS.get(error.code)
    if verdict is not None:
        return verdict
    return Verdict.RETRY if error.retriable else Verdict.FATAL


class Member:
    """What the coordinator has said of this consumer."""

    def __init__(self) -> None:
        self.member_id: MemberId = NO_MEMBER_ID
        self.generation = NO_GENERATION
        self.last_generation = NO_GENERATION
        """The one in which it got what it owns; an eager leader wants to know."""

    @property
    def is_confirmed(self) -> bool:
        """Whether this consumer is a member of a generation."""
        return self.generation != NO_GENERATION

    def on_named(self, member_id: MemberId) -> None:
        """Take the id that the coordinator has given, before it lets this member in (KIP-394)."""
        self.member_id = member_id

    def on_joined(self, response: JoinGroupResponse) -> None:
        """Take part in a new generation."""
        self.member_id = response.member_id
        self.generation = response.generation_id

    def on_assigned(self) -> None:
        """Note that what this member owns is of its generation."""
        self.last_generation = self.generation

    def on_lost(self, code: ErrorCode) -> None:
        """Belong to no generation; an unknown id is of no use any more."""
        self.generation = self.last_generation = NO_GENERATION
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = NO_MEMBER_ID


def chosen_assignor(assignors: Sequence[Assignor], name: str | None) -> Assignor | None:
    """Return the assignor that the group has agreed on, None if this member does not know it."""
    return next((each for each in assignors if each.name == name), None)
