"""Where a follower's log departs from its leader's (decision).

Both sides know which leader epoch wrote which offsets. The leader names the largest epoch that it
has up to the follower's last one, and where that epoch ends; the follower cuts there, or, when it
does not know that epoch, at the end of its own largest smaller one, and asks again.

Source: KIP-101, KIP-279; kafka.server.AbstractFetcherThread.getOffsetTruncationState of Kafka 3.9.
"""

from typing import Final, NamedTuple, Protocol

from kafkawire.ids import LeaderEpoch, Offset

UNDEFINED: Final = -1


class EpochHistory(Protocol):
    """Which epochs a log holds: `storage.leader_epochs.LeaderEpochs`."""

    @property
    def latest(self) -> LeaderEpoch:
        """The newest epoch, -1 when there is none."""
        ...

    def end_offset_for(self, epoch: int, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch up to `epoch`, and where it ends; (-1, -1) if none."""
        ...


class Divergence(NamedTuple):
    """The leader has `epoch` up to `end_offset` only."""

    epoch: LeaderEpoch
    end_offset: Offset


class Truncation(NamedTuple):
    """Cut the log to `offset`; when it is not final, ask the leader again after that."""

    offset: Offset
    is_final: bool


def divergence(
    leader: EpochHistory, leader_end: Offset, *, last_epoch: int, fetch_offset: Offset
) -> Divergence | None:
    """Return where a follower departs that has `last_epoch` up to `fetch_offset`; None if nowhere.

    A follower without any epoch has nothing to compare. One whose epoch this leader does not know
    at all gets (-1, -1): it is ahead of the leader.
    """
    if last_epoch == UNDEFINED:
        return None
    epoch, end_offset = leader.end_offset_for(last_epoch, leader_end)
    if epoch < last_epoch or end_offset < fetch_offset:
        return Divergence(epoch, end_offset)
    return None


def truncation(
    follower: EpochHistory, follower_end: Offset, high_watermark: Offset, found: Divergence
) -> Truncation:
    """Return what a follower does about what its leader found."""
    if found.end_offset == UNDEFINED:
        # The leader has no history to compare with: only what is committed is sure.
        return Truncation(min(high_watermark, follower_end), is_final=True)
    if found.epoch == UNDEFINED:
        return Truncation(min(found.end_offset, follower_end), is_final=True)
    epoch, end_offset = follower.end_offset_for(found.epoch, follower_end)
    if epoch == UNDEFINED:
        return Truncation(min(found.end_offset, follower_end), is_final=True)
    if epoch != found.epoch:
        return Truncation(min(end_offset, follower_end), is_final=False)
    return Truncation(min(end_offset, found.end_offset, follower_end), is_final=True)


def out_of_range(
    follower_end: Offset, leader_start: Offset, leader_end: Offset
) -> tuple[Offset, bool]:
    """Return where a follower goes on whose offset the leader does not have.

    The second value says whether its log must be emptied and start there: it is behind all that
    the leader still has. Else it is ahead, after an unclean election, and is cut.
    """
    if leader_end < follower_end:
        return leader_end, False
    return max(leader_start, follower_end), leader_start > follower_end
