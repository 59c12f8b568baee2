"""Keeps the fetch buffer filled (edge).

Like the sender, the fetcher has no task. A pass (`_run`) sends the requests that are missing, and
runs again when a response arrived, room became free, a connection or the metadata changed, or a
timer rang. The next fetch is sent as soon as a response is in, while its records are still being
handed over.

A broker may hold a fetch until records are written. A partition that becomes ready for a fetch
only then (after a full buffer, a pause or a jump) must not wait behind it, but responses arrive in
order. So each broker has a second lane, a connection on which a fetch waits only briefly. Once
both fetches are done, all partitions share one fetch again. If one request cannot name them all,
both lanes wait for records, and the partitions take turns.
Invariant: a response moves a partition only if the partition has not jumped since the request.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import (
    ZERO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from kafkawire.messages.fetch import (
    TOPIC_IDS_SINCE,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkawire.sentinels import NO_LEADER
from ottla.client.background import Alarm
from ottla.client.client_config import ConsumerConfig
from ottla.client.client_metrics import FetchCounts
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.fetch_plan import (
    fetch_max_bytes,
    fetch_request,
    is_in_sync,
    make_plan,
    paused_to_drop,
    wanted_partitions,
)
from ottla.client.consumer.fetch_session import (
    INITIAL_EPOCH,
    MAX_PARTITIONS_PER_FETCH,
    SESSION_ERRORS,
    FetchKey,
    FetchSession,
    sessionless,
    uses_topic_ids,
)
from ottla.client.consumer.fetched_block import FetchedBlock
from ottla.client.consumer.partition_failures import PartitionFailures
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.consumer.positions import RESET_TIMESTAMPS, Committed, Positions
from ottla.client.errors import OffsetOutOfRangeError, OttlaError, broker_error
from ottla.client.network.broker_connection import Connection
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection_pool import Purpose

log = logging.getLogger(__name__)

_CONFIRMING_CODES: Final = frozenset({ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE})
"""Results by which a broker shows that it has looked into the log of the topic that was named."""

BESIDE_WAIT_MS: Final = 20
"""Limit of the wait of a fetch on the second lane."""

Lane = tuple[BrokerId, Purpose]
Fetched = dict[FetchKey, tuple[PartitionState, int]]
"""The partitions of a fetch, each with its jump count at the time of the request."""


@dataclass(frozen=True, slots=True)
class _Fetch:
    """A fetch in flight."""

    requested: Fetched
    max_bytes: int
    is_full: bool
    """Whether the request named all partitions, and so cannot contradict a session."""
    is_brief: bool
    """Whether the broker responds soon, also without records."""


class Fetcher:
    """Fetches for all assigned partitions."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        buffer: FetchBuffer,
        on_arrival: Callable[[], None],
        committed: Committed | None = None,
    ) -> None:
        """Call `on_arrival` whenever the buffer gets records or an error.

        `committed` returns the committed offsets of the group, for partitions that start there.
        """
        self._cluster = cluster
        self._config = config
        self._buffer = buffer
        self._on_arrival = on_arrival
        self._loop = asyncio.get_running_loop()
        self._failures = PartitionFailures(cluster, buffer, on_arrival)
        self._positions = Positions(cluster, config, buffer, self._failures, self.run, committed)
        self._states: dict[TopicPartition, PartitionState] = {}
        self._in_flight: dict[Lane, _Fetch] = {}
        self.counts = FetchCounts()
        self._sessions: dict[Lane, tuple[Connection, FetchSession]] = {}
        self._is_scheduled = False
        self._is_stopped = False
        self._alarm = Alarm(self._loop, self.run)

    def assign(self, states: Iterable[PartitionState]) -> None:
        """Fetch exactly these partitions from now on."""
        self._states = {state.topic_partition: state for state in states}
        self.wake()

    def wake(self) -> None:
        """Schedule a pass in this turn of the event loop."""
        if not self._is_scheduled and not self._is_stopped:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def run(self) -> None:
        """Run a pass now, since room became free."""
        if not self._is_stopped:
            self._pass()

    async def stop(self) -> None:
        """Send no further requests, and cancel lookups in progress."""
        self._is_stopped = True
        self._alarm.cancel()
        await self._positions.stop()

    # A pass

    def _run(self) -> None:
        self._is_scheduled = False
        self.run()

    def _pass(self) -> None:
        now_s = self._loop.time()
        metadata = self._cluster.metadata
        plan = make_plan(self._states.values(), metadata, self._config, now_s)
        errors = self._cluster.take_connection_errors()
        for leader, states in plan.fetches.items():
            if (lane := self._free_lane(leader)) is None:
                continue
            error = errors.get(lane)
            if error is None or error.retriable:
                self._fetch(lane, states, len(plan.leaders))
                continue
            for state in states:
                self._failures.note(state, error)
        if plan.lookups:
            self._positions.look_up(plan.lookups)
        if plan.checks:
            self._positions.check(plan.checks)
        if plan.is_leaderless:
            self._cluster.request_refresh()
        self._alarm.ring_by(plan.look_again_at_s)

    def _free_lane(self, leader: BrokerId) -> Lane | None:
        main, beside = (leader, Purpose.FETCH), (leader, Purpose.FETCH_BESIDE)
        held = self._in_flight.get(beside)
        if held is not None and held.is_brief:
            # If a new fetch took the main lane and waited there, a partition that becomes ready
            # next would find both lanes in use.
            return None
        if main not in self._in_flight:
            return main
        return beside if held is None else None

    def _fetch(self, lane: Lane, states: list[PartitionState], leader_count: int) -> None:
        connection = self._cluster.ready_connection(*lane)
        if connection is None:
            return
        max_bytes = self._max_bytes(leader_count)
        if max_bytes == 0 and self._drop_paused():
            max_bytes = self._max_bytes(leader_count)
        if max_bytes == 0:
            return
        is_brief = lane[1] is Purpose.FETCH_BESIDE and not self._is_crowded(lane[0], len(states))
        wait_ms = self._config.fetch_max_wait_ms
        if is_brief:
            wait_ms = min(wait_ms, BESIDE_WAIT_MS)
        states = self._first_in_turn(states)
        wanted = wanted_partitions(
            states,
            self._cluster.metadata,
            self._config,
            may_use_topic_ids=connection.may_use(ApiKey.FETCH, TOPIC_IDS_SINCE),
        )
        # The partitions of the second lane change with every request.
        is_main = lane[1] is Purpose.FETCH
        part = self._session(lane, connection).request(wanted) if is_main else sessionless(wanted)
        request = fetch_request(part, self._config, max_bytes, wait_ms)
        requested: Fetched = {
            key: (state, state.jump_count) for key, state in zip(wanted, states, strict=True)
        }
        for state in states:
            state.has_request = True
            state.checked_epoch = self._cluster.metadata.leader_epoch(state.topic_partition)
        is_full = part.session_epoch <= INITIAL_EPOCH
        self._in_flight[lane] = _Fetch(requested, max_bytes, is_full, is_brief)
        self.counts.request_count += 1
        newest = None if uses_topic_ids(wanted) else TOPIC_IDS_SINCE - 1
        self._send(connection, lane, request, newest)

    def _max_bytes(self, leader_count: int) -> int:
        requested_bytes = sum(fetch.max_bytes for fetch in self._in_flight.values())
        held_bytes = self._buffer.size_bytes + requested_bytes
        return fetch_max_bytes(self._config, leader_count, held_bytes)

    def _drop_paused(self) -> bool:
        """Drop fetched data of paused partitions if it is too much; return whether it was."""
        dropped = paused_to_drop(self._states.values(), self._config)
        for state in dropped:
            self._buffer.drop_fetched(state)
            state.rewind()
        return bool(dropped)

    def _is_crowded(self, broker_id: BrokerId, ready_count: int) -> bool:
        """Whether the main lane and `ready_count` more partitions are too many for one request."""
        main = self._in_flight.get((broker_id, Purpose.FETCH))
        main_count = 0 if main is None else len(main.requested)
        return main_count + ready_count > MAX_PARTITIONS_PER_FETCH

    def _first_in_turn(self, states: list[PartitionState]) -> list[PartitionState]:
        """Return the partitions of one request, which come last in the next turn if others wait."""
        if len(states) <= MAX_PARTITIONS_PER_FETCH:
            return states
        first = states[:MAX_PARTITIONS_PER_FETCH]
        for state in first:
            self._states[state.topic_partition] = self._states.pop(state.topic_partition)
        # The other lane may take the next ones.
        self.wake()
        return first

    def _session(self, lane: Lane, connection: Connection) -> FetchSession:
        """Return the session of a connection; brokers end it with the connection."""
        known = self._sessions.get(lane)
        if known is None or known[0] is not connection:
            known = self._sessions[lane] = (connection, FetchSession())
        return known[1]

    def _send(
        self, connection: Connection, lane: Lane, request: FetchRequest, newest: int | None
    ) -> None:
        """Send `request` in the highest common version up to `newest`."""
        timeout_s = (request.max_wait_ms + self._cluster.config.request_timeout_ms) / 1000
        try:
            connection.send(
                request,
                FetchResponse,
                lambda response: self._on_response(lane, response),
                lambda error: self._on_refusal(lane, error),
                timeout_s=timeout_s,
                version=connection.choose_version(ApiKey.FETCH, newest),
            )
        except OttlaError as error:
            # Not from within the current pass.
            self._loop.call_soon(self._on_refusal, lane, error)

    # Responses

    def _on_response(self, lane: Lane, response: FetchResponse) -> None:
        if lane in self._sessions:
            self._sessions[lane][1].on_response(response)
        if response.error_code in SESSION_ERRORS and not self._in_flight[lane].is_full:
            # The next request begins another session, with all partitions.
            self._release(self._in_flight.pop(lane).requested)
            self.wake()
            return
        if response.error_code != ErrorCode.NONE:
            refusal = broker_error(response.error_code, f"fetch from broker {lane[0]}")
            self._on_refusal(lane, refusal)
            return
        requested = self._in_flight.pop(lane).requested
        if not self._is_stopped:
            self._on_partitions(requested, response)
            self.run()

    def _on_refusal(self, lane: Lane, error: OttlaError) -> None:
        self.counts.failed_request_count += 1
        if lane in self._sessions:
            self._sessions[lane][1].on_lost()
        requested = self._in_flight.pop(lane).requested
        if self._is_stopped:
            return
        for state, jump_count in requested.values():
            if state.jump_count == jump_count:
                state.has_request = False
                self._failures.note(state, error)
        # Not from within the current pass.
        self.wake()

    def _on_partitions(self, requested: Fetched, response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                key = FetchKey(topic.topic_id, topic.topic, data.partition_index)
                state, jump_count = requested.pop(key, (None, 0))
                if state is not None and state.jump_count == jump_count:
                    state.has_request = False
                    try:
                        self._on_partition(state, data, topic.topic_id)
                    except Exception as error:
                        self._failures.note_internal(state, error)
        # A response in a session leaves out partitions without news; errors are news.
        for key, (state, jump_count) in requested.items():
            if state.jump_count == jump_count:
                state.confirm_topic(key.topic_id)
        self._release(requested)

    def _release(self, requested: Fetched) -> None:
        for state, jump_count in requested.values():
            if state.jump_count == jump_count:
                state.has_request = False

    def _on_partition(self, state: PartitionState, data: PartitionData, topic_id: TopicId) -> None:
        """Handle the result for one partition; `topic_id` is the id that the request named."""
        if data.error_code in _CONFIRMING_CODES:
            state.confirm_topic(topic_id)
        if data.high_watermark >= 0:
            state.end_offset = Offset(self._end_of(data))
        if data.error_code != ErrorCode.NONE and state.preferred_replica != NO_LEADER:
            # A follower lags or is no longer one: the leader decides. It may name the same one
            # again, so not at once.
            state.forget_preferred()
            delay_s = self._cluster.backoff.delay_s(state.failure_count + 1)
            state.on_failure(self._loop.time() + delay_s)
            self._cluster.request_refresh()
            self.wake()
        elif data.preferred_read_replica != NO_LEADER:
            self._on_preferred(state, BrokerId(data.preferred_read_replica))
        elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_out_of_range(state, topic_id)
        elif data.error_code != ErrorCode.NONE:
            self._on_partition_error(state, data)
        elif isinstance(data.records, memoryview) and data.records:
            block = FetchedBlock(state, data.records, data.aborted_transactions or ())
            state.on_fetched(block.next_offset, block.last_epoch)
            self._buffer.add(block)
            if block.error is not None:
                state.suspend()
            # The others come first next time, so that none starves behind a full response.
            self._states[state.topic_partition] = self._states.pop(state.topic_partition)
            self._on_arrival()
        else:
            state.on_success()

    def _on_preferred(self, state: PartitionState, replica: BrokerId) -> None:
        until_s = self._loop.time() + self._cluster.config.metadata_max_age_ms / 1000
        state.prefer(replica, until_s)
        log.info("replica.preferred partition=%s broker=%d", state.topic_partition, replica)
        if is_in_sync(replica, state.topic_partition, self._cluster.metadata):
            # A replica that names itself or another one, too, must not do so at full speed.
            delay_s = self._cluster.backoff.delay_s(state.failure_count) * bool(state.failure_count)
        else:
            # The leader is the first to know. Until the metadata shows it, too, the next fetch
            # would go to the leader, which would name the same replica again.
            delay_s = self._cluster.backoff.delay_s(state.failure_count + 1)
            self._cluster.request_refresh()
        state.on_failure(self._loop.time() + delay_s)
        self.wake()

    def _end_of(self, data: PartitionData) -> int:
        """Return the offset up to which this consumer can read."""
        if self._config.isolation_level == "read_committed" and data.last_stable_offset >= 0:
            return data.last_stable_offset
        return data.high_watermark

    def _on_partition_error(self, state: PartitionState, data: PartitionData) -> None:
        named = data.current_leader
        leader, epoch = BrokerId(named.leader_id), LeaderEpoch(named.leader_epoch)
        if self._cluster.learn_leader(state.topic_partition, leader, epoch):
            # Without a delay: the response has named the new leader (KIP-951).
            state.on_failure(self._loop.time())
            self.wake()
        else:
            self._failures.note(state, broker_error(data.error_code, str(state.topic_partition)))

    def _on_out_of_range(self, state: PartitionState, topic_id: TopicId) -> None:
        reset_to = RESET_TIMESTAMPS[self._config.auto_offset_reset]
        if self._buffer.position(state) != state.fetch_offset:
            # The buffered records are good: hand them over first, and retry after them.
            state.on_failure(self._loop.time() + self._cluster.backoff.delay_s(1))
            return
        log.warning(
            "offset.out_of_range partition=%s offset=%s", state.topic_partition, state.fetch_offset
        )
        if topic_id == ZERO_TOPIC_ID:
            # Perhaps the topic was created again. Then this resets the position in the new one, and
            # the metadata that shows its id must not do so once more.
            state.await_topic(since=self._cluster.refresh_count + 1)
            self._cluster.request_refresh()
        if reset_to is None:
            error = OffsetOutOfRangeError(state.topic_partition, state.fetch_offset)
            self._failures.note(state, error)
        else:
            self._positions.reset(state, reset_to)
