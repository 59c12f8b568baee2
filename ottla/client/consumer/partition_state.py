"""The position of a consumer in one partition, and its errors and delays (decision).

Invariant: `jump_count` grows with every jump, so that the response to a request from before the
jump is recognised and dropped.
"""

from math import inf

from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.sentinels import NO_EPOCH, NO_LEADER
from ottla.client.errors import OttlaError


class PartitionState:
    """One assigned partition."""

    __slots__ = (
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

    def adopt_topic(self, topic_id: TopicId, refresh: int) -> bool:
        """Note the id of the topic, as `refresh` found it; return whether it was created again."""
        # Old brokers send no ids.
        if topic_id in (ZERO_TOPIC_ID, self.topic_id) or refresh < self.topic_since:
            return False
        known, self.topic_id = self.topic_id, topic_id
        return known != ZERO_TOPIC_ID

    def forget_topic(self, since: int) -> None:
        """Take the id that refresh `since` or a later one finds as that of the position's topic."""
        self.topic_id, self.topic_since = ZERO_TOPIC_ID, since

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

    def suspend(self) -> None:
        """Fetch nothing until the partition jumps or its error was raised."""
        self.retry_at_s = inf

    def on_failure(self, retry_at_s: float) -> None:
        """Count a failure, and fetch nothing until `retry_at_s`."""
        self.failure_count += 1
        self.retry_at_s = retry_at_s

    def _forget(self) -> None:
        self.jump_count += 1
        self.reset_to = None
        self.wants_committed = False
        self.checked_epoch = NO_EPOCH
        self.error = None
        self.has_request = False
        self.failure_count = 0
        self.retry_at_s = 0.0
