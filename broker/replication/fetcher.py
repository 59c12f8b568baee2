"""The follower's side of replication: fetches, appends and truncates diverging logs (edge).

One request is in flight, for all partitions that this leader leads and this broker follows. The
part of a response for a partition is used only if the partition is still followed in the same
leader epoch and its log has not moved. A diverging log is truncated before the leader's high
watermark is adopted, as that may lie beyond the records that are kept.

Source: kafka.server.AbstractFetcherThread of Kafka 3.9; KIP-101, KIP-279, KIP-595.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from broker.cluster.control_fence import ControlFence
from broker.cluster.peer import Peer, PeerError
from broker.config.replication_keys import ReplicationKeys
from broker.replication.divergence import Divergence, out_of_range, truncation_offset
from broker.replication.fetch_plan import (
    SESSION_ENDED,
    FetchPlan,
    FollowedPartition,
    offset_requests,
)
from broker.replication.replica import Replica
from broker.replication.replica_table import Key
from broker.replication.replication_throttle import ReplicationThrottle
from kafkawire.apis import ApiKey
from kafkawire.errors import CorruptBatchError, ErrorCode, name_of
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafkawire.messages.fetch import (
    DIVERGING_EPOCHS_SINCE,
    TOPIC_IDS_SINCE,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkawire.messages.list_offsets import ListOffsetsResponse
from kafkawire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from storage.directory.logs import Logs
from storage.errors import StorageError, UnexpectedOffsetError

LOCATED_PER_TURN: Final = 100
"""Logs that are emptied or truncated in one turn of the loop, in 0.2 ms each."""

log = structlog.get_logger(__name__)


class Fetcher:
    """Copies from one leader, from its creation until `close`."""

    def __init__(
        self,
        broker_id: BrokerId,
        peer: Peer,
        *,
        fence: ControlFence,
        logs: Logs,
        throttle: ReplicationThrottle,
        config: ReplicationKeys,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        clock_ms: Callable[[], int],
        on_progress: Callable[[TopicPartition], None] | None = None,
    ) -> None:
        """Date records by `now_ms`; measure delays by `clock_ms`, which never jumps.

        `on_progress` is called with each partition of which the leader has sent news.
        """
        self._on_progress = on_progress
        self.peer = peer
        self._broker_id = broker_id
        self._logs = logs
        self._throttle = throttle
        self._config = config
        self._now_ms = now_ms
        self._clock_ms = clock_ms
        self._plan = FetchPlan(broker_id, config, fence)
        self._wakeup = asyncio.Event()
        # Whether a fetch is pending, which the leader may delay until it has records.
        self._is_fetching = False
        # Whether the last response names topics by their ids.
        self._has_ids = False
        self.task = loop.create_task(self._run(), name=f"fetcher-{peer.name}")
        """Ends after `close`, or when a bug stops the copying."""

    @property
    def is_idle(self) -> bool:
        """Whether no partition is copied."""
        return not len(self._plan)

    @property
    def lags(self) -> list[tuple[TopicPartition, int]]:
        """Committed records that each partition lacks here, as of the leader's last response."""
        return [(each.replica.topic_partition, each.lag) for each in self._plan.followed()]

    def add(self, replicas: Iterable[Replica]) -> None:
        """Copy partitions from now on; a request that waits at the leader is given up for them.

        The session there continues, so the next request names only the new partitions.
        """
        for replica in replicas:
            self._plan.add(replica)
        self._wakeup.set()
        if self._is_fetching:
            self._is_fetching = False
            self.peer.interrupt()

    def remove(self, keys: Iterable[Key]) -> None:
        """Stop copying partitions; a pending response for them is ignored."""
        self._plan.remove(keys)

    def close(self) -> asyncio.Task[None]:
        """Stop copying; the returned task ends soon."""
        self.task.cancel()
        return self.task

    async def _run(self) -> None:
        try:
            while True:
                if await self._wait_until_ready():
                    await self._fetch_or_back_off()
        finally:
            await self.peer.close()

    async def _wait_until_ready(self) -> bool:
        """Return True if a partition is ready; otherwise wait for a change and return False."""
        wait_ms = self._plan.resume_in_ms(self._clock_ms())
        if self._plan.has_ready:
            return True
        self._wakeup.clear()
        try:
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                await self._wakeup.wait()
        except TimeoutError:
            pass
        return False

    async def _fetch_or_back_off(self) -> None:
        try:
            await self._fetch()
        except PeerError as error:
            if self._wakeup.is_set():
                # Given up for new partitions, or because the leader has moved.
                self._wakeup.clear()
                return
            log.info("fetch.failed", leader=self.peer.name, error=str(error))
            try:
                async with asyncio.timeout(self._config.replica_fetch_backoff_ms / 1000):
                    await self._wakeup.wait()
            except TimeoutError:
                return

    async def _fetch(self) -> None:
        # First, so that the request is built from the state at the time it is sent.
        version = await self._choose_version()
        self._wakeup.clear()
        now_ms = self._clock_ms()
        self._repeat_flushes(now_ms)
        if not self._plan.has_ready:
            return
        request = self._plan.request(now_ms, version)
        self._is_fetching = True
        try:
            response = await self._ask(request, version)
        except PeerError:
            if self._is_fetching:
                self._plan.on_no_response()
            else:
                self._plan.on_given_up()
            raise
        finally:
            self._is_fetching = False
        self._plan.on_response(response)
        self._has_ids = version >= TOPIC_IDS_SINCE
        if response.error_code in SESSION_ENDED:
            return
        if response.error_code != ErrorCode.NONE:
            raise PeerError(f"{self.peer.name} responded with {name_of(response.error_code)}")
        await self._locate(self._take(response))

    def _repeat_flushes(self, now_ms: int) -> None:
        """Repeat the flushes that failed after appends, or back off from these partitions.

        The leader takes a fetch for the confirmation that all records below its offset are kept.
        """
        self._plan.resume_in_ms(now_ms)
        for followed in self._plan.changed():
            upkeep = followed.replica.log.upkeep
            if upkeep.is_flush_late:
                try:
                    upkeep.flush_appended()
                except (StorageError, OSError) as error:
                    self._fail([followed], str(error), now_ms)

    async def _choose_version(self) -> int:
        """Return the newest version of Fetch that the leader and all copied topics support."""
        newest = TOPIC_IDS_SINCE - 1 if self._plan.has_topic_without_id else None
        version = await self.peer.choose_version(ApiKey.FETCH, newest)
        if version < DIVERGING_EPOCHS_SINCE:
            raise PeerError(
                f"{self.peer.name} serves Fetch up to version {version}, "
                f"{DIVERGING_EPOCHS_SINCE} is needed"
            )
        return version

    async def _ask(self, request: FetchRequest, version: int) -> FetchResponse:
        return await self.peer.ask(
            request,
            FetchResponse,
            version=version,
            timeout_ms=self._config.replica_socket_timeout_ms,
        )

    def _take(self, response: FetchResponse) -> list[FollowedPartition]:
        """Handle a response, and return the partitions whose offset is out of range."""
        now_ms = self._clock_ms()
        lost: list[FollowedPartition] = []
        refused: dict[int, list[FollowedPartition]] = {}
        cuts: dict[TopicPartition, Offset] = {}
        for topic in response.responses:
            name = self._plan.topic_name(topic.topic_id) if self._has_ids else topic.topic
            for data in topic.partitions:
                followed = self._plan.get((name, data.partition_index))
                if followed is None or not followed.is_current:
                    continue
                if data.error_code == ErrorCode.NONE:
                    self._take_partition(followed, data, cuts, now_ms)
                elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    lost.append(followed)
                else:
                    refused.setdefault(data.error_code, []).append(followed)
        for code, partitions in refused.items():
            self._fail(partitions, name_of(code), now_ms)
        if cuts:
            self._truncate(cuts)
        return lost

    def _take_partition(
        self,
        followed: FollowedPartition,
        data: PartitionData,
        cuts: dict[TopicPartition, Offset],
        now_ms: int,
    ) -> None:
        replica = followed.replica
        if data.diverging_epoch.end_offset >= 0 or data.diverging_epoch.epoch >= 0:
            found = Divergence(
                LeaderEpoch(data.diverging_epoch.epoch), Offset(data.diverging_epoch.end_offset)
            )
            local = replica.log
            cuts[replica.topic_partition] = truncation_offset(
                local.leader_epochs, local.log_end_offset, replica.high_watermark, found
            )
            return
        try:
            _append(replica, data, self._now_ms())
            if followed.has_moved:
                self._plan.on_moved(replica.topic_partition)
        except CorruptBatchError as error:
            self._fail([followed], str(error), now_ms)
        except UnexpectedOffsetError as error:
            if error.diverging_offset is None:
                self._fail([followed], str(error), now_ms)
            else:
                # The leader's epochs do not show this divergence: DeleteRecords has moved its log
                # start into the batch, and this log was truncated to the log start.
                cuts[replica.topic_partition] = error.diverging_offset
        except (StorageError, OSError) as error:
            # The log dir or the log is gone; its failure handling will remove the partition.
            self._fail([followed], str(error), now_ms)
        else:
            followed.on_success()
            followed.leader_high_watermark = data.high_watermark
            if data.records:
                replica.traffic.replication_bytes_in += len(data.records)  # type: ignore[arg-type]
            if self._on_progress is not None:
                self._on_progress(replica.topic_partition)
            if data.records and self._throttle.covers(replica):
                self._slow_down(followed, data, now_ms)

    def _slow_down(self, followed: FollowedPartition, data: PartitionData, now_ms: int) -> None:
        """Pause a lagging partition if the copied bytes exceed the rate."""
        self._throttle.record(len(data.records or b""), now_ms)  # type: ignore[arg-type]
        pause_ms = self._throttle.pause_ms(now_ms)
        if pause_ms and data.high_watermark > followed.replica.log.log_end_offset:
            self._plan.pause(followed, now_ms + pause_ms)

    def _truncate(self, cuts: dict[TopicPartition, Offset]) -> None:
        found = [self._plan.get(partition) for partition in cuts]
        followed = [each for each in found if each is not None]
        before = [each.position for each in followed]
        try:
            self._logs.truncate_to(cuts)
        except (StorageError, OSError) as error:
            log.error("log.not_truncated", error=str(error))
        for each, position in zip(followed, before, strict=True):
            self._on_truncated(each)
            if each.position == position:
                # Truncation made no progress: back off before retrying.
                self._fail([each], "the leader's epochs do not match the log", self._clock_ms())

    def _fail(self, partitions: Sequence[FollowedPartition], reason: str, now_ms: int) -> None:
        """Back off from partitions that cannot be copied now; log one event for all of them."""
        log.info(
            "fetch.rejected",
            partition=str(partitions[0].replica.topic_partition),
            partition_count=len(partitions),
            error=reason,
            leader=self.peer.name,
        )
        for followed in partitions:
            self._plan.on_failure(followed, now_ms)

    def _on_truncated(self, followed: FollowedPartition) -> None:
        followed.replica.on_truncated()
        self._plan.on_moved(followed.replica.topic_partition)

    async def _locate(self, lost: Sequence[FollowedPartition]) -> None:
        """Find the offsets where partitions continue that are out of range at the leader."""
        if not lost:
            return
        starts = await self._list(lost, EARLIEST_TIMESTAMP)
        ends = await self._list(lost, LATEST_TIMESTAMP)
        # A follower whose disk was replaced loses all partitions of a leader at once.
        for first in range(0, len(lost), LOCATED_PER_TURN):
            self._relocate(lost[first : first + LOCATED_PER_TURN], starts, ends)
            await asyncio.sleep(0)

    def _relocate(
        self,
        lost: Sequence[FollowedPartition],
        starts: Mapping[TopicPartition, Offset],
        ends: Mapping[TopicPartition, Offset],
    ) -> None:
        """Empty or truncate logs to the offsets where they continue."""
        now_ms = self._clock_ms()
        cuts: dict[TopicPartition, Offset] = {}
        emptied: dict[TopicPartition, Offset] = {}
        for followed in lost:
            partition = followed.replica.topic_partition
            start, end = starts.get(partition), ends.get(partition)
            if self._plan.get(partition) is not followed or not followed.is_current:
                continue
            if start is None or end is None:
                self._fail([followed], "the leader did not return its offsets", now_ms)
                continue
            end_offset = followed.replica.log.log_end_offset
            offset, is_emptied = out_of_range(end_offset, start, end)
            if is_emptied:
                emptied[partition] = offset
            elif offset < end_offset:
                cuts[partition] = offset
            else:
                self._fail([followed], "the leader refused an offset within its log", now_ms)
                self._on_truncated(followed)
        if cuts:
            self._truncate(cuts)
        if emptied:
            self._empty(emptied, now_ms)

    def _empty(self, starts: Mapping[TopicPartition, Offset], now_ms: int) -> None:
        """Empty logs that end below their leader's, and let them begin where that begins."""
        found = [self._plan.get(partition) for partition in starts]
        followed = [each for each in found if each is not None]
        reason = "the log was not emptied"
        try:
            self._logs.truncate_fully_and_start_at(starts)
        except (StorageError, OSError) as error:
            reason = str(error)
            log.error("log.not_emptied", error=reason)
        failed = []
        for each in followed:
            self._on_truncated(each)
            if each.replica.log.log_end_offset != starts[each.replica.topic_partition]:
                failed.append(each)
        if failed:
            self._fail(failed, reason, now_ms)

    async def _list(
        self, partitions: Sequence[FollowedPartition], timestamp: int
    ) -> dict[TopicPartition, Offset]:
        """Request the leader's first or last offsets; leave out partitions with errors."""
        found: dict[TopicPartition, Offset] = {}
        for request in offset_requests(self._broker_id, partitions, timestamp):
            response = await self.peer.ask(request, ListOffsetsResponse)
            for topic in response.topics:
                for data in topic.partitions:
                    if data.error_code == ErrorCode.NONE and data.offset >= 0:
                        partition = TopicPartition(topic.name, data.partition_index)
                        found[partition] = Offset(data.offset)
        return found


def _append(replica: Replica, data: PartitionData, now_ms: int) -> None:
    """Append the leader's records, then adopt its high watermark and log start offset."""
    local, records = replica.log, data.records
    if records:
        assert isinstance(records, memoryview), "decoded records are views of the response"
        local.append_as_follower(records, now_ms)
    replica.adopt_high_watermark(data.high_watermark)
    if data.log_start_offset > local.log_start_offset:
        local.advance_log_start(min(Offset(data.log_start_offset), local.log_end_offset))
