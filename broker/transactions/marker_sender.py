"""Sends the markers of decided transactions to the leaders of their partitions (edge).

Every marker is sent until its partition has it, or needs none: a decided transaction is never given
up, except to a newer coordinator. The markers for this broker's own partitions take no socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peers import Peers
from broker.network.reply import Reply
from broker.transactions.marker_queues import (
    Batch,
    MarkerQueues,
    Outcome,
    Outgoing,
    Place,
    markers_of,
    outcomes_of,
)
from broker.transactions.transaction_effects import Ending
from kafkawire.errors import name_of
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse

RETRY_S: Final = 0.1
"""Time before a marker is sent again after an error that passes."""
REFUSED_RETRY_S: Final = 10.0
"""Time before a marker is sent again after an error that needs an operator."""
LOOK_UP_S: Final = 1.0
"""Interval of further searches for leaders, besides the changes of the metadata."""
DELETED_AFTER_S: Final = 3.0
"""Time after which a partition that is in no metadata counts as deleted.

This broker may learn of a new partition later than the coordinator before it did.
"""
MAX_DELETED: Final = 10_000
"""Limit of the deletions that are remembered. Earlier ones are noticed after the time above."""

log = structlog.get_logger(__name__)

OnMarker = Callable[[Outgoing, TopicPartition], None]


class MarkerSender:
    """Sends the markers of `send`; calls `on_marker` for each that is written or not needed."""

    def __init__(
        self,
        broker_id: BrokerId,
        metadata: MetadataCache,
        *,
        peers: Peers,
        write_own: Callable[[WriteTxnMarkersRequest], Reply],
        on_marker: OnMarker,
        loop: asyncio.AbstractEventLoop,
        timeout_ms: int,
    ) -> None:
        """Write own markers with `write_own`, and wait up to `timeout_ms` for other brokers."""
        self._broker_id = broker_id
        self._metadata = metadata
        self._peers = peers
        self._write_own = write_own
        self._on_marker = on_marker
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._queues = MarkerQueues(self._leader_of)
        self._live: dict[Ending, Outgoing] = {}
        self._in_flight: dict[BrokerId, asyncio.Task[None] | None] = {}
        self._missing_since_s: dict[tuple[Outgoing, TopicPartition], float] = {}
        # Oldest first.
        self._deleted: dict[TopicPartition, None] = {}
        self._look_up_timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        metadata.on_change(self._on_metadata_changed)

    @property
    def ending_count(self) -> int:
        """Number of decided transactions with missing markers."""
        return len(self._live)

    @property
    def lost_count(self) -> int:
        """Number of markers without a leader to send them to."""
        return self._queues.lost_count

    def send(self, outgoing: Outgoing) -> None:
        """Send a marker to each partition of an ending."""
        self._live[outgoing.ending] = outgoing
        self._queue(outgoing, list(outgoing.ending.remaining))

    def drop(self, coordinator_partition: int) -> None:
        """Forget the markers of a partition of `__transaction_state` that is led elsewhere now."""
        self._forget(lambda each: each.coordinator_partition == coordinator_partition)

    def on_partitions_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the markers of deleted partitions, so that none gets into a new log of that name."""
        for topic_partition in partitions:
            self._deleted.pop(topic_partition, None)
            self._deleted[topic_partition] = None
            if len(self._deleted) > MAX_DELETED:
                del self._deleted[next(iter(self._deleted))]
        for outgoing, topic_partition in self._queues.missing():
            if topic_partition in self._deleted:
                self._drop_unneeded(outgoing, topic_partition)

    async def stop(self) -> None:
        """Stop sending; the next coordinator sends the rest."""
        self._is_stopped = True
        self._live.clear()
        if self._look_up_timer is not None:
            self._look_up_timer.cancel()
        tasks = [task for task in self._in_flight.values() if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._peers.close()

    # Inside

    def _leader_of(self, topic_partition: TopicPartition) -> BrokerId | Place:
        image = self._metadata.image
        state = image.partition(topic_partition)
        if state is None:
            return Place.UNKNOWN if image.is_complete else Place.LEADERLESS
        leader = state.leader_and_isr.leader
        if leader == self._broker_id or self._peers.is_alive(leader):
            return leader
        return Place.LEADERLESS

    def _queue(self, outgoing: Outgoing, partitions: Iterable[TopicPartition]) -> None:
        if self._live.get(outgoing.ending) is not outgoing:
            return
        needed = []
        for topic_partition in partitions:
            is_unknown = self._leader_of(topic_partition) is Place.UNKNOWN
            if is_unknown and topic_partition in self._deleted:
                self._drop_unneeded(outgoing, topic_partition)
            else:
                needed.append(topic_partition)
        self._pump_all(self._queues.put(outgoing, needed))

    def _pump_all(self, brokers: Iterable[BrokerId]) -> None:
        for broker_id in sorted(brokers):
            self._pump(broker_id)
        if self._queues.lost_count and self._look_up_timer is None and not self._is_stopped:
            self._look_up_timer = self._loop.call_later(LOOK_UP_S, self._look_up)

    def _pump(self, broker_id: BrokerId) -> None:
        if broker_id in self._in_flight or self._is_stopped:
            return
        batch = self._queues.take(broker_id)
        if not batch:
            return
        request = WriteTxnMarkersRequest(markers=markers_of(batch))
        if broker_id != self._broker_id:
            task = self._loop.create_task(self._ask(broker_id, batch, request), name="markers")
            self._in_flight[broker_id] = task
            return
        self._in_flight[broker_id] = None
        try:
            reply = self._write_own(request)
        except Exception:
            # A bug must not stop the markers of other transactions (KAFKA-9749).
            log.exception("markers.failed", broker_id=broker_id)
            self._loop.call_soon(self._finish, broker_id, batch, None)
            return
        if reply.is_done:
            self._on_own_reply(batch, reply)
        else:
            reply.on_done(partial(self._on_own_reply, batch, reply))

    def _on_own_reply(self, batch: Batch, reply: Reply) -> None:
        message = reply.message
        response = message if isinstance(message, WriteTxnMarkersResponse) else None
        self._finish(self._broker_id, batch, response)

    async def _ask(
        self, broker_id: BrokerId, batch: Batch, request: WriteTxnMarkersRequest
    ) -> None:
        response = None
        try:
            peer = await self._peers.peer(broker_id)
            response = await peer.ask(request, WriteTxnMarkersResponse, timeout_ms=self._timeout_ms)
        except OSError as error:
            log.info("markers.not_sent", broker_id=broker_id, error=str(error))
        except Exception:
            # A bug must not stop the markers of other transactions (KAFKA-9749).
            log.exception("markers.failed", broker_id=broker_id)
        self._finish(broker_id, batch, response)

    def _finish(
        self, broker_id: BrokerId, batch: Batch, response: WriteTxnMarkersResponse | None
    ) -> None:
        del self._in_flight[broker_id]
        if self._is_stopped:
            return
        again: dict[Outgoing, list[TopicPartition]] = {}
        refused: dict[Outgoing, list[TopicPartition]] = {}
        for outgoing, topic_partition, outcome, code in outcomes_of(
            batch, response or WriteTxnMarkersResponse(markers=[])
        ):
            if outcome is Outcome.DONE:
                self._done(outgoing, topic_partition)
                continue
            if outcome is Outcome.SUPERSEDED:
                self._forget(lambda each, it=outgoing: each is it)  # type: ignore[misc]
            target = refused if outcome is Outcome.REFUSED else again
            target.setdefault(outgoing, []).append(topic_partition)
            if response is not None:
                self._note(outgoing, topic_partition, outcome, code)
        for outgoing, partitions in again.items():
            self._loop.call_later(RETRY_S, self._queue, outgoing, partitions)
        for outgoing, partitions in refused.items():
            self._loop.call_later(REFUSED_RETRY_S, self._queue, outgoing, partitions)
        # In a later turn: an own broker that answers at once must not keep the loop for itself.
        self._loop.call_soon(self._pump, broker_id)

    def _note(
        self, outgoing: Outgoing, topic_partition: TopicPartition, outcome: Outcome, code: int
    ) -> None:
        write = log.info if outcome is Outcome.AGAIN else log.error
        write(
            "marker.refused",
            transactional_id=outgoing.ending.transactional_id,
            partition=str(topic_partition),
            error=name_of(code),
            outcome=outcome.name,
        )

    def _done(self, outgoing: Outgoing, topic_partition: TopicPartition) -> None:
        ending = outgoing.ending
        if self._live.get(ending) is not outgoing:
            return
        if ending.remaining == {topic_partition}:
            del self._live[ending]
        self._on_marker(outgoing, topic_partition)

    def _forget(self, is_dropped: Callable[[Outgoing], bool]) -> None:
        self._queues.drop(is_dropped)
        for outgoing in [each for each in self._live.values() if is_dropped(each)]:
            del self._live[outgoing.ending]

    def _on_metadata_changed(self) -> None:
        self._peers.give_up_lost()
        if self._queues.lost_count:
            self._pump_all(self._queues.look_up_again())

    def _look_up(self) -> None:
        """Search the leaders again; a partition that stays unknown is deleted."""
        self._look_up_timer = None
        now_s = self._loop.time()
        missing = self._queues.missing()
        since = self._missing_since_s
        self._missing_since_s = {each: since.get(each, now_s) for each in missing}
        for (outgoing, topic_partition), since_s in self._missing_since_s.items():
            if now_s - since_s >= DELETED_AFTER_S:
                self._drop_unneeded(outgoing, topic_partition)
        self._pump_all(self._queues.look_up_again())

    def _drop_unneeded(self, outgoing: Outgoing, topic_partition: TopicPartition) -> None:
        log.info("marker.not_needed", partition=str(topic_partition))
        self._queues.forget(outgoing, topic_partition)
        self._done(outgoing, topic_partition)
