"""Finds the positions of partitions, and corrects them after a truncation (edge).

Lookups run in tasks. A result counts only if its partition has not jumped since the request.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from typing import Final

from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.sentinels import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from ottla.client.background import TaskSet
from ottla.client.client_config import ConsumerConfig
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.partition_failures import PartitionFailures
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.consumer.position_check import ask_epoch_ends, truncation
from ottla.client.errors import (
    LogTruncatedError,
    OffsetOutOfRangeError,
    OttlaError,
    UnsupportedVersionError,
)
from ottla.client.network.cluster import Cluster
from ottla.client.network.offset_lookup import ask_leaders
from ottla.client.offset import CommittedOffset

log = logging.getLogger(__name__)

RESET_TIMESTAMPS: Final[Mapping[str, int | None]] = {
    "earliest": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "none": None,
}

Committed = Callable[
    [Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, CommittedOffset | None]]
]
Requested = dict[TopicPartition, tuple[PartitionState, int]]
"""The partitions of a lookup, each with its jump count at the time of the request."""


class Positions:
    """The positions of all partitions of a consumer."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        buffer: FetchBuffer,
        failures: PartitionFailures,
        on_done: Callable[[], None],
        committed: Committed | None,
    ) -> None:
        """Call `on_done` after each lookup.

        `committed` returns the committed offsets of the group, for partitions that start there.
        """
        self._cluster = cluster
        self._config = config
        self._buffer = buffer
        self._failures = failures
        self._on_done = on_done
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._lookups = TaskSet(self._loop)

    def look_up(self, states: Iterable[PartitionState]) -> None:
        """Look up the positions of partitions that have none."""
        requested = self._mark_requested(states)
        self._lookups.spawn(self._contained(self._resolve(requested), requested), "look up offsets")

    def check(self, by_leader: Mapping[BrokerId, Iterable[PartitionState]]) -> None:
        """Check that the logs of new leaders contain the records below the positions."""
        requested = self._mark_requested(state for states in by_leader.values() for state in states)
        work = self._compare(by_leader, requested)
        self._lookups.spawn(self._contained(work, requested), "compare logs")

    def reset(self, state: PartitionState, reset_to: int) -> None:
        """Look up a new position; again and again only with a delay."""
        self._buffer.drop_fetched(state)
        state.reset(reset_to)
        if (repetition_count := state.reset_count - 1) > 0:
            state.on_failure(self._loop.time() + self._cluster.backoff.delay_s(repetition_count))

    async def stop(self) -> None:
        """Cancel the lookups in progress."""
        await self._lookups.cancel_all()

    async def _resolve(self, requested: Requested) -> None:
        """Set positions: the committed offset of the group, or else the reset policy."""
        left = await self._resolve_committed(requested)
        wanted = {
            each: state.reset_to for each, (state, _) in left.items() if state.reset_to is not None
        }
        is_committed = self._config.isolation_level == "read_committed"
        isolation_level = READ_COMMITTED if is_committed else READ_UNCOMMITTED
        found = await ask_leaders(self._cluster, wanted, isolation_level) if wanted else {}
        for topic_partition, state in self._current(left):
            place = found.get(topic_partition)
            if place is None:
                self._failures.note(state, OffsetOutOfRangeError(topic_partition, None))
            elif isinstance(place, OttlaError):
                self._failures.note(state, place)
            else:
                state.settle(place.offset)
        self._on_done()

    async def _resolve_committed(self, requested: Requested) -> Requested:
        """Set positions to the committed offsets where there are any; return the others."""
        wanting = {each: held for each, held in requested.items() if held[0].wants_committed}
        if self._committed is None or not wanting:
            return requested
        try:
            found = await self._committed(wanting)
        except OttlaError as error:
            for _, state in self._current(wanting):
                self._failures.note(state, error)
            return {each: held for each, held in requested.items() if each not in wanting}
        known = {each: requested[each] for each, held in found.items() if held is not None}
        for topic_partition, state in self._current(known):
            committed = found[topic_partition]
            assert committed is not None
            state.settle(committed.offset, committed.leader_epoch)
        return {each: held for each, held in requested.items() if each not in known}

    async def _compare(
        self, by_leader: Mapping[BrokerId, Iterable[PartitionState]], requested: Requested
    ) -> None:
        """Check that the logs of new leaders contain the records fetched from old leaders."""
        epochs = {each: self._cluster.metadata.leader_epoch(each) for each in requested}
        ends = await ask_epoch_ends(self._cluster, by_leader)
        for topic_partition, state in self._current(requested):
            end = ends[topic_partition]
            if isinstance(end, UnsupportedVersionError):
                # An old broker, which does not keep epochs.
                state.checked_epoch = epochs[topic_partition]
            elif isinstance(end, OttlaError):
                self._failures.note(state, end)
            elif (cut := truncation(state, end)) is None:
                state.checked_epoch = epochs[topic_partition]
            else:
                self._on_truncated(state, cut)
        self._on_done()

    def _on_truncated(self, state: PartitionState, cut: LogTruncatedError) -> None:
        """Continue at the offset where the logs diverge, or if unknown by the reset policy."""
        if self._buffer.position(state) != state.fetch_offset:
            # Perhaps only records are gone that were not handed over: drop all of these, and
            # compare the logs again from the position on.
            self._buffer.drop_fetched(state)
            state.rewind()
            return
        log.warning("log.truncated partition=%s error=%s", state.topic_partition, cut)
        reset_to = RESET_TIMESTAMPS[self._config.auto_offset_reset]
        if reset_to is None:
            self._failures.note(state, cut)
            return
        if cut.diverging_offset is None:
            self.reset(state, reset_to)
        else:
            self._buffer.drop_fetched(state)
            state.jump(cut.diverging_offset)

    async def _contained(self, work: Coroutine[None, None, None], requested: Requested) -> None:
        """Run a lookup; if it raises, its partitions are not taken for requested any longer."""
        try:
            await work
        except Exception as error:
            for _, state in self._current(requested):
                self._failures.note_internal(state, error)
            self._on_done()

    def _mark_requested(self, states: Iterable[PartitionState]) -> Requested:
        requested: Requested = {}
        for state in states:
            state.has_request = True
            requested[state.topic_partition] = (state, state.jump_count)
        return requested

    def _current(self, requested: Requested) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """Clear and yield the partitions that have not jumped since the request."""
        for topic_partition, (state, jump_count) in requested.items():
            if state.jump_count == jump_count:
                state.has_request = False
                yield topic_partition, state
