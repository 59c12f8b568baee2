"""Where a consumer stands in one partition, and what keeps it from going on. Decision: no I/O.

Invariant: `jump_count` grows with every jump, so that an answer to a request that was made before
the jump is recognised and dropped.
"""

from math import inf
from typing import Final

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from ottla.client.errors import OttlaError

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1
NO_EPOCH: Final = LeaderEpoch(-1)


class PartitionState:
    """One assigned partition."""

    __slots__ = (
        "buffered_bytes",
        "checked_epoch",
        "error",
        "failure_count",
        "fetch_epoch",
        "fetch_offset",
        "has_request",
        "is_paused",
        "jump_count",
        "next_offset",
        "position_epoch",
        "reset_to",
        "retry_at_s",
        "topic_partition",
        "wants_committed",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.next_offset: Offset | None = None
        """The first offset that was not handed over yet; None while the position is not known."""
        self.fetch_offset: Offset | None = None
        """The first offset that was not fetched yet."""
        self.position_epoch = NO_EPOCH
        """The leader epoch of the record before `next_offset`, if known."""
        self.fetch_epoch = NO_EPOCH
        """The leader epoch of the last batch that was fetched, if known."""
        self.checked_epoch = NO_EPOCH
        """The leadership whose log is known to hold what was fetched (KIP-320)."""
        self.wants_committed = False
        """The group is to be asked first, when the position is to be found."""
        self.reset_to: int | None = None
        """The timestamp (or EARLIEST, LATEST) to look up, when the position is to be found."""
        self.error: OttlaError | None = None
        """What whoever reads must be told; nothing is fetched until that is done."""
        self.is_paused = False
        self.has_request = False
        """A fetch or a lookup is under way; at most one is."""
        self.jump_count = 0
        """Tells whether an answer belongs to a position that was left since."""
        self.buffered_bytes = 0
        """Fetched and not yet taken apart; kept by `FetchBuffer`."""
        self.failure_count = 0
        self.retry_at_s = 0.0

    def jump(self, offset: Offset, leader_epoch: LeaderEpoch = NO_EPOCH) -> None:
        """Go on at `offset`, wherever the consumer stood before.

        `leader_epoch` is the one of the record before it, if known.
        """
        self._forget()
        self.next_offset = self.fetch_offset = offset
        self.position_epoch = self.fetch_epoch = leader_epoch

    def jump_to_timestamp(self, timestamp: int) -> None:
        """Go on where a lookup of `timestamp` will say."""
        self._forget()
        self.next_offset = self.fetch_offset = None
        self.position_epoch = self.fetch_epoch = NO_EPOCH
        self.reset_to = timestamp

    def abandon(self) -> None:
        """The partition is not assigned any more: whatever is under way for it is of no use."""
        self._forget()

    def on_fetched(self, next_offset: Offset, leader_epoch: LeaderEpoch) -> None:
        """Note that everything below `next_offset` was fetched, the last of it of this epoch."""
        assert self.fetch_offset is None or next_offset >= self.fetch_offset
        self.fetch_offset = next_offset
        self.fetch_epoch = leader_epoch
        self.failure_count = 0

    def on_error(self, error: OttlaError, retry_at_s: float) -> None:
        """Let whoever reads hear of `error`, then try again, from `retry_at_s` on."""
        self.rewind()
        self.error = error
        self.on_failure(retry_at_s)

    def rewind(self) -> None:
        """Fetch again all that was not handed over."""
        self.jump_count += 1
        self.has_request = False
        self.fetch_offset = self.next_offset
        self.fetch_epoch = self.position_epoch

    def rest(self) -> None:
        """Fetch nothing until the partition jumps or its error was told."""
        self.retry_at_s = inf

    def on_failure(self, retry_at_s: float) -> None:
        """Rest until `retry_at_s`."""
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
