"""One replica in a simulated broker: the real decisions with a fake log."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.cluster.control_fence import refuse_leadership
from broker.replication.divergence import Divergence, divergence, out_of_range, truncation_offset
from broker.replication.isr.isr_state import Proposal
from broker.replication.leadership import Leadership, Limits, LiveEpoch
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrPartitionState
from tests.simulation.cluster.fake_log import FakeLog, Record

RECORDS_PER_FETCH = 3
MAX_LAG_MS = 400


class FetchResponse(NamedTuple):
    """Response of a leader to a follower; with `diverging` it has no records."""

    error: ErrorCode = ErrorCode.NONE
    records: Sequence[Record] = ()
    high_watermark: Offset = Offset(0)
    log_end: Offset = Offset(0)
    diverging: Divergence | None = None


class Replica:
    """Replica on one broker: leader, follower, or without a role yet."""

    def __init__(self, partition: TopicPartition, log: FakeLog, high_watermark: Offset) -> None:
        self.partition = partition
        self.log = log
        self.topic_id: TopicId | None = None
        self.high_watermark = min(high_watermark, log.end)
        self.leader_epoch: LeaderEpoch | None = None
        self.leader: BrokerId | None = None
        self.leadership: Leadership | None = None
        self.proposed: Proposal | None = None
        self.proposed_at_ms = 0
        self.fetch: int | None = None
        """Number of the pending fetch, if any."""
        self.checked_epoch = -1
        self.checked_mark = Offset(0)

    def apply(
        self,
        broker_id: BrokerId,
        state: LeaderAndIsrPartitionState,
        topic_id: TopicId,
        limits: Limits,
        live_epoch: LiveEpoch,
        now_ms: int,
    ) -> ErrorCode:
        """Take the role in a LeaderAndIsr, unless it is outdated."""
        if code := refuse_leadership(
            self.leader_epoch, self.topic_id, state.leader_epoch, topic_id
        ):
            return code
        self.topic_id = topic_id
        self.leader_epoch = LeaderEpoch(state.leader_epoch)
        self.leader = BrokerId(state.leader)
        self.proposed, self.fetch = None, None
        self.leadership = None
        if state.leader == broker_id:
            self.log.begin_epoch(self.leader_epoch)
            self.leadership = Leadership(
                broker_id,
                LeaderAndIsr(
                    leader=broker_id,
                    isr=tuple(BrokerId(one) for one in state.isr),
                    controller_epoch=state.controller_epoch,
                    leader_epoch=self.leader_epoch,
                    partition_epoch=state.partition_epoch,
                ),
                replicas={BrokerId(one) for one in state.replicas} | {broker_id},
                log_end_offset=self.log.end,
                high_watermark=self.high_watermark,
                limits=limits,
                live_epoch=live_epoch,
                now_ms=now_ms,
            )
            self.settle()
        return ErrorCode.NONE

    def append(self, value: int, now_ms: int) -> None:
        """Write one record as the leader."""
        assert self.leadership is not None
        self.log.append(Record(self.leadership.leader_epoch, value))
        self.leadership.on_append(self.log.end, now_ms)
        self.settle()

    def settle(self) -> None:
        """Adopt the high watermark of the leadership."""
        if self.leadership is not None:
            self.high_watermark = self.leadership.high_watermark

    def on_fetch(
        self,
        follower: BrokerId,
        epoch: LeaderEpoch,
        offset: Offset,
        last_epoch: LeaderEpoch,
        broker_epoch: int,
        now_ms: int,
    ) -> FetchResponse:
        """Return the response to a follower's fetch."""
        if self.leadership is None or self.leader_epoch is None:
            return FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if epoch < self.leader_epoch:
            return FetchResponse(ErrorCode.FENCED_LEADER_EPOCH)
        if epoch > self.leader_epoch:
            return FetchResponse(ErrorCode.UNKNOWN_LEADER_EPOCH)
        end, mark = self.log.end, self.high_watermark
        found = divergence(self.log.epochs, end, last_epoch=last_epoch, fetch_offset=offset)
        if found is not None:
            self.on_diverging(follower, offset, now_ms)
            return FetchResponse(high_watermark=mark, log_end=end, diverging=found)
        if offset > end:
            return FetchResponse(ErrorCode.OFFSET_OUT_OF_RANGE, log_end=end)
        self.leadership.on_fetch(follower, offset, now_ms, broker_epoch)
        self.settle()
        records = self.log.records[offset : offset + RECORDS_PER_FETCH]
        return FetchResponse(records=records, high_watermark=self.high_watermark, log_end=end)

    def on_diverging(self, follower: BrokerId, offset: Offset, now_ms: int) -> None:
        """Ignore the offset of a diverging follower; a mutant uses it."""

    def on_response(self, answer: FetchResponse, offset: Offset) -> None:
        """Handle the leader's response to a fetch at `offset`, as a follower."""
        if offset != self.log.end:
            return
        if answer.diverging is not None:
            # Truncated before adopting the leader's watermark, which may be beyond the kept part.
            self.truncate(
                truncation_offset(
                    self.log.epochs, self.log.end, self.high_watermark, answer.diverging
                )
            )
        elif answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            cut_at, _ = out_of_range(self.log.end, Offset(0), answer.log_end)
            self.truncate(cut_at)
        elif answer.error is ErrorCode.NONE:
            for record in answer.records:
                self.log.append(record)
            self.high_watermark = max(self.high_watermark, min(answer.high_watermark, self.log.end))

    def truncate(self, offset: Offset) -> None:
        """Truncate the log to `offset`."""
        self.log.truncate(offset)
        self.high_watermark = min(self.high_watermark, offset)


OnChange = Callable[[BrokerId, Replica], None]
