"""The position of a consumer in one partition, and its errors and delays (decision).

A position is about the topic with one id, `topic_id`. It is certain once a broker has read that
topic's log at the position; until then the topic may have been created again in the meantime. A
seek is then about the new topic, and a lookup is made again.
Invariant: `jump_count` grows with every jump, so that the response to a request from before the
jump is recognised and dropped.
"""

from enum import Enum, auto
from math import inf
from typing import NamedTuple

from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.sentinels import NO_EPOCH, NO_LEADER
from ottla.client.errors import OttlaError


class TopicChange(Enum):
    """The meaning of a topic id in the metadata for a position."""

    NONE = auto()
    BEFORE_READING = auto()
    """The topic was created again; the position is looked up again, and nothing was read there."""
    WHILE_READING = auto()
    """The topic was created again, and the position is about the old one."""


class Lookup(NamedTuple):
    """The way in which an unknown position is found; see the fields of `PartitionState`."""

    wants_committed: bool
    reset_to: int | None


class PartitionState:
    """One assigned partition."""

    __slots__ = (
        "awaits_topic",
        "buffered_bytes",
        "checked_epoch",
        "end_offset",
        "error",
        "failure_count",
        "fetch_epoch",
        "fetch_offset",
        "has_request",
        "is_paused",
        "jump_count",
        "lookup",
        "next_offset",
        "position_epoch",
        "preferred_replica",
        "preferred_until_s",
        "reset_count",
        "reset_to",
        "retry_at_s",
        "topic_id",
        "topic_partition",
        "topic_since",
        "wants_committed",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.topic_id = ZERO_TOPIC_ID
        """The topic that the position is about, once it is known."""
        self.topic_since = 0
        """The first refresh of the metadata that shows this topic; earlier ones may be outdated."""
        self.awaits_topic = False
        """Whether the metadata must be refreshed to learn the topic."""
        self.next_offset: Offset | None = None
        """Offset of the next record to hand over; None while the position is unknown."""
        self.fetch_offset: Offset | None = None
        """Offset of the next record to fetch."""
        self.end_offset: Offset | None = None
        """End of the readable log as of the last response that named it."""
        self.position_epoch = NO_EPOCH
        """Leader epoch of the record before `next_offset`, if known."""
        self.fetch_epoch = NO_EPOCH
        """Leader epoch of the last fetched batch, if known."""
        self.checked_epoch = NO_EPOCH
        """Epoch of the last leader known to have all fetched records (KIP-320)."""
        self.wants_committed = False
        """Whether an unknown position is first looked up among the group's committed offsets."""
        self.reset_to: int | None = None
        """Timestamp (or EARLIEST, LATEST) by which an unknown position is looked up."""
        self.lookup: Lookup | None = None
        """The lookup that has found the position, until a broker has read there."""
        self.error: OttlaError | None = None
        """Error for the next read to raise; nothing is fetched before that."""
        self.is_paused = False
        self.has_request = False
        """Whether a fetch or a lookup is in flight; at most one is."""
        self.jump_count = 0
        """Number of jumps; it identifies responses to requests from before the last jump."""
        self.buffered_bytes = 0
        """Size of the fetched batches that are not decoded yet; maintained by `FetchBuffer`."""
        self.failure_count = 0
        self.retry_at_s = 0.0
        self.reset_count = 0
        """Number of resets by the policy since a fetch succeeded."""
        self.preferred_replica = NO_LEADER
        """The closer replica to fetch from, as the leader has named it; -1 for the leader."""
        self.preferred_until_s = 0.0

    def adopt_topic(self, topic_id: TopicId, refresh: int) -> TopicChange:
        """Note the id of the topic, as `refresh` found it."""
        # Old brokers send no ids.
        if topic_id == ZERO_TOPIC_ID or refresh < self.topic_since:
            return TopicChange.NONE
        self.awaits_topic = False
        known, self.topic_id = self.topic_id, topic_id
        if known in (ZERO_TOPIC_ID, topic_id):
            return TopicChange.NONE
        if self.next_offset is None or self.lookup is not None:
            self._look_up_again()
            return TopicChange.BEFORE_READING
        return TopicChange.WHILE_READING

    def confirm_topic(self, topic_id: TopicId) -> None:
        """Record that a broker has read the log at the position, in the topic with this id.

        The id is zero if the request named no id.
        """
        self.lookup = None
        if topic_id != ZERO_TOPIC_ID:
            self.topic_id, self.topic_since, self.awaits_topic = topic_id, 0, False

    def forget_topic(self, since: int) -> None:
        """Take the id that refresh `since` or a later one finds as that of the position's topic.

        An id that a broker confirms before that is taken, too.
        """
        self.topic_id, self.topic_since = ZERO_TOPIC_ID, since

    def await_topic(self, since: int) -> None:
        """Forget the topic, and have the metadata refreshed until `since` shows it."""
        self.forget_topic(since)
        self.awaits_topic = True

    def prefer(self, replica: BrokerId, until_s: float) -> None:
        """Fetch from `replica` up to `until_s`, and then ask the leader again (KIP-392)."""
        self.preferred_replica, self.preferred_until_s = replica, until_s

    def forget_preferred(self) -> None:
        """Fetch from the leader."""
        self.preferred_replica = NO_LEADER

    def jump(self, offset: Offset, leader_epoch: LeaderEpoch = NO_EPOCH) -> None:
        """Move the position to `offset`.

        `leader_epoch` is the epoch of the record before it, if known.
        """
        self._forget()
        self.next_offset = self.fetch_offset = offset
        self.position_epoch = self.fetch_epoch = leader_epoch

    def settle(self, offset: Offset, leader_epoch: LeaderEpoch = NO_EPOCH) -> None:
        """Move the position to `offset`, as its lookup has found it."""
        lookup = Lookup(self.wants_committed, self.reset_to)
        self.jump(offset, leader_epoch)
        self.lookup = lookup

    def jump_to_timestamp(self, timestamp: int | None) -> None:
        """Move the position to the result of a later lookup of `timestamp`; to none with None."""
        self._forget()
        self.next_offset = self.fetch_offset = None
        self.position_epoch = self.fetch_epoch = NO_EPOCH
        self.reset_to = timestamp

    def reset(self, timestamp: int) -> None:
        """Move the position by the reset policy, since the log does not contain it."""
        self.jump_to_timestamp(timestamp)
        self.reset_count += 1

    def jump_to_committed(self, reset_to: int | None) -> None:
        """Move the position to the committed offset of the group, found by a later lookup.

        Without one it is looked up by the timestamp `reset_to`.
        """
        self._forget()
        self.next_offset = self.fetch_offset = None
        self.position_epoch = self.fetch_epoch = NO_EPOCH
        self.reset_to = reset_to
        self.wants_committed = True

    def abandon(self) -> None:
        """Invalidate requests in flight: the partition is no longer assigned."""
        self._forget()

    def on_fetched(self, next_offset: Offset, leader_epoch: LeaderEpoch) -> None:
        """Record that everything below `next_offset` was fetched, ending with `leader_epoch`."""
        assert self.fetch_offset is None or next_offset >= self.fetch_offset
        self.fetch_offset = next_offset
        self.fetch_epoch = leader_epoch
        self.on_success()

    def on_success(self) -> None:
        """Record that a fetch succeeded, perhaps without records."""
        self.failure_count = self.reset_count = 0

    def on_error(self, error: OttlaError, retry_at_s: float) -> None:
        """Make the next read raise `error`, and retry from `retry_at_s` on."""
        self.rewind()
        self.error = error
        self.on_failure(retry_at_s)

    def rewind(self) -> None:
        """Fetch again everything that was not handed over."""
        self.jump_count += 1
        self.has_request = False
        self.fetch_offset = self.next_offset
        self.fetch_epoch = self.position_epoch
        if self.retry_at_s == inf:
            # Suspended because of fetched data, which is gone now.
            self.retry_at_s = 0.0

    def suspend(self) -> None:
        """Fetch nothing until the partition jumps or its error was raised."""
        self.retry_at_s = inf

    def on_failure(self, retry_at_s: float) -> None:
        """Count a failure, and fetch nothing until `retry_at_s`."""
        self.failure_count += 1
        self.retry_at_s = retry_at_s

    def _look_up_again(self) -> None:
        """Repeat the lookup that is in flight, or that has found the position."""
        self.jump_count += 1
        self.has_request = False
        if self.lookup is not None:
            lookup = self.lookup
            self._forget()
            self.next_offset = self.fetch_offset = None
            self.position_epoch = self.fetch_epoch = NO_EPOCH
            self.wants_committed, self.reset_to = lookup

    def _forget(self) -> None:
        self.jump_count += 1
        self.reset_to = None
        self.wants_committed = False
        self.lookup = None
        self.checked_epoch = NO_EPOCH
        self.error = None
        self.has_request = False
        self.failure_count = 0
        self.retry_at_s = 0.0
