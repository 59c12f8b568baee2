"""Finds the offset where a follower's log diverges from its leader's (decision).

Both sides know which leader epoch wrote which offsets. The leader responds with its largest epoch
up to the follower's last one, and that epoch's end offset. The follower truncates there. If it does
not know that epoch, it truncates to the end of its own next smaller one, and fetches again. The
`fetcher` truncates.

Source: KIP-101, KIP-279; kafka.server.AbstractFetcherThread.getOffsetTruncationState of Kafka 3.9.
"""

from typing import Final, NamedTuple, Protocol

from kafkawire.ids import LeaderEpoch, Offset

UNDEFINED: Final = -1


class EpochHistory(Protocol):
    """Leader epochs of a log: `storage.log.leader_epochs.LeaderEpochs`."""

    @property
    def latest(self) -> LeaderEpoch:
        """Newest epoch, -1 if there is none."""
        ...

    def end_offset_for(self, epoch: int, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch up to `epoch`, and its end; (-1, -1) if none."""
        ...


class Divergence(NamedTuple):
    """The leader's log holds `epoch` up to `end_offset` only."""

    epoch: LeaderEpoch
    end_offset: Offset


def divergence(
    leader: EpochHistory, leader_end: Offset, *, last_epoch: int, fetch_offset: Offset
) -> Divergence | None:
    """Return where a follower with `last_epoch` up to `fetch_offset` diverges; None if nowhere.

    A follower without any epoch has nothing to compare. A follower whose epoch this leader does not
    know at all gets (-1, -1): it is ahead of the leader.
    """
    if last_epoch == UNDEFINED:
        return None
    epoch, end_offset = leader.end_offset_for(last_epoch, leader_end)
    if epoch < last_epoch or end_offset < fetch_offset:
        return Divergence(epoch, end_offset)
    return None


def truncation_offset(
    follower: EpochHistory, follower_end: Offset, high_watermark: Offset, found: Divergence
) -> Offset:
    """Return where a follower truncates its log after its leader has found a divergence."""
    if found.end_offset < 0:
        # The leader has no epochs to compare: only committed records are known to be the same.
        return min(high_watermark, follower_end)
    epoch, end_offset = follower.end_offset_for(found.epoch, follower_end)
    if epoch == UNDEFINED:
        return min(found.end_offset, follower_end)
    if epoch != found.epoch:
        # Not final: the next fetch compares the smaller epoch.
        return min(end_offset, follower_end)
    return min(end_offset, found.end_offset, follower_end)


def out_of_range(
    follower_end: Offset, leader_start: Offset, leader_end: Offset
) -> tuple[Offset, bool]:
    """Return the offset where a follower continues whose own is out of range at the leader.

    The second value says whether the follower's log must be emptied and start there. That is so if
    the log ends before the leader's log start. Otherwise it ends after the leader's log end, after
    an unclean election, and is truncated.
    """
    if leader_end < follower_end:
        return leader_end, False
    return max(leader_start, follower_end), leader_start > follower_end
