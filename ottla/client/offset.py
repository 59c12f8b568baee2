"""Offsets as users see them, and the identity that commits them (decision)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.sentinels import MAX_OFFSET, NO_EPOCH
from ottla.client.argument import require_by_partition, require_text, require_whole, whole_number

MemberId = str

NO_MEMBER_ID: Final[MemberId] = ""
NO_GENERATION: Final = -1


class OffsetAndTimestamp(NamedTuple):
    """An offset in a log, with the timestamp of its record in ms.

    `offset` is -1 if no record is as late as the requested timestamp; `timestamp_ms` is -1 for
    the ends of a log.
    """

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch


class CommittedOffset(NamedTuple):
    """A committed offset: that of the next record to read.

    `leader_epoch` is the epoch of the record before it, -1 if unknown; it reveals a truncated log
    (KIP-320). `metadata` is free text of the committing application.
    """

    offset: Offset
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    metadata: str = ""


def parse_commit(
    offsets: Mapping[TopicPartition, int | CommittedOffset],
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets that a user commits; a plain number is an offset without an epoch.

    Raises:
        ValueError: as `parse_offset`; or a key is no partition, or the metadata is no text.
    """
    wanted = {}
    for place, at in require_by_partition("offsets", offsets).items():
        committed = at if isinstance(at, CommittedOffset) else CommittedOffset(cast(Offset, at))
        require_text("the metadata of an offset", committed.metadata)
        epoch = require_whole("leader_epoch", committed.leader_epoch, NO_EPOCH)
        wanted[place] = committed._replace(
            offset=parse_offset(place, committed.offset), leader_epoch=LeaderEpoch(epoch)
        )
    return wanted


def parse_offset(topic_partition: TopicPartition, offset: object) -> Offset:
    """Return an offset that a user gives.

    Raises:
        ValueError: it is not a whole number, or not within 0..MAX_OFFSET.
    """
    number = _whole_number(offset)
    if number is None:
        raise ValueError(
            f"an offset is a whole number from 0 to {MAX_OFFSET}, got {offset!r} for "
            f"{topic_partition}"
        )
    return Offset(number)


def require_timestamp(topic_partition: TopicPartition, timestamp_ms: object) -> None:
    """Require a timestamp to look up, and not one of the protocol's names for an end of a log.

    Raises:
        ValueError: it is not a whole number, or not within 0..MAX_OFFSET.
    """
    if _whole_number(timestamp_ms) is None:
        raise ValueError(
            f"a timestamp is a whole number from 0 to {MAX_OFFSET}, got {timestamp_ms!r} for "
            f"{topic_partition}; use beginning_offsets or end_offsets for the ends"
        )


def _whole_number(value: object) -> int | None:
    """Return a number within 0..MAX_OFFSET, None for any other value."""
    number = whole_number(value)
    return number if number is not None and 0 <= number <= MAX_OFFSET else None


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer group, and the membership under which records were read.

    With it a transaction commits offsets only if the consumer is still a member of that generation
    (KIP-447). A group's id alone stands for a consumer without membership.
    """

    group_id: str
    generation: int = NO_GENERATION
    member_id: MemberId = NO_MEMBER_ID
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """The author of a commit: a member of a generation, by default a client without membership."""

    member_id: MemberId = NO_MEMBER_ID
    generation: int = NO_GENERATION
    is_joining: bool = False
    """Whether the member is joining the next generation, which the coordinator may have begun."""
