"""The state of this consumer in its group (decision).

`Member` follows the responses of the coordinator; `Holding` is the interface to its partitions.
Invariant: `generation` is NO_GENERATION unless the coordinator has confirmed this member in that
generation and has not removed it since.
"""

from collections.abc import Iterable
from typing import Protocol

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.group_membership import JoinGroupResponse
from ottla.client.offset import NO_GENERATION, NO_MEMBER_ID, MemberId


class Member:
    """The state of this consumer in its group, as confirmed by the coordinator."""

    def __init__(self) -> None:
        self.member_id: MemberId = NO_MEMBER_ID
        self.generation = NO_GENERATION
        self.last_generation = NO_GENERATION
        """Generation in which it got its partitions; assignors report it to the leader."""
        self.was_admitted = False
        """Whether this consumer has been a member since it subscribed."""

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
        self.was_admitted = True

    def on_assigned(self) -> None:
        """Record that the current partitions belong to the current generation."""
        self.last_generation = self.generation

    def on_lost(self, code: ErrorCode) -> None:
        """Leave the generation; also drop the member id unless it is still valid."""
        self.generation = self.last_generation = NO_GENERATION
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = NO_MEMBER_ID

    def on_left(self) -> None:
        """Forget the membership, which this consumer has ended itself."""
        self.on_lost(ErrorCode.NONE)
        self.was_admitted = False


class Holding(Protocol):
    """The partitions that a consumer reads."""

    def owned(self) -> list[TopicPartition]:
        """Return the partitions that are read now."""

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Also read these partitions, from the committed offsets of the group."""

    def take_away(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions, and drop their fetched records."""

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh, in addition to the topics being read."""

    async def commit_processed(self) -> None:
        """Commit the positions after processed records if auto-commit is on; never raises."""
