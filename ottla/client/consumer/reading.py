"""The partitions that a consumer reads, and its position in each (composition).

Owns the partition states, and passes every change to the buffer and the fetcher. It can be used
before the consumer is started, while there is no fetcher yet.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from kafkawire.ids import ZERO_TOPIC_ID, Offset, TopicPartition
from ottla.client.argument import require_partition
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.partition_state import PartitionState, TopicChange
from ottla.client.errors import NotAssignedError, OffsetOutOfRangeError
from ottla.client.network.cluster import Cluster
from ottla.client.offset import CommittedOffset

log = logging.getLogger(__name__)


class Reading:
    """The assignment of one consumer."""

    def __init__(
        self, buffer: FetchBuffer, reset_to: int | None, on_arrival: Callable[[], None]
    ) -> None:
        """Look up unknown positions by the timestamp `reset_to`; None means no reset policy."""
        self._buffer = buffer
        self._reset_to = reset_to
        self._on_arrival = on_arrival
        self._states: dict[TopicPartition, PartitionState] = {}
        self._other_topics: frozenset[str] = frozenset()
        self._cluster: Cluster | None = None
        self._fetcher: Fetcher | None = None

    def begin(self, cluster: Cluster, fetcher: Fetcher) -> None:
        """Attach the cluster and the fetcher, and start fetching."""
        self._cluster, self._fetcher = cluster, fetcher
        self._update()

    # Partitions

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that are read."""
        return list(self._states)

    def assign(self, wanted: Iterable[TopicPartition], *, wants_committed: bool) -> None:
        """Read exactly these partitions from now on. Partitions that stay keep their position."""
        kept = [TopicPartition(*each) for each in wanted]
        self._drop(self._states.keys() - set(kept))
        self._add(kept, wants_committed=wants_committed)
        self._update()

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Also read these partitions, from the committed offsets of the group."""
        self._add(partitions, wants_committed=True)
        self._update()

    def take_away(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions, and drop their fetched records."""
        self._drop(partitions)
        self._update()

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh, in addition to the topics being read."""
        self._other_topics = frozenset(topics)
        self._update()

    def held(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Return the states of the assigned ones among `partitions`.

        A partition that was taken away and added again has a new state.
        """
        states = self._states
        return {each: states[each] for each in partitions if each in states}

    def on_metadata(self) -> list[TopicPartition]:
        """Reset the positions in topics that were deleted and created again, and return these.

        A position in the log of the old topic means nothing in that of the new one.
        """
        changes = self._adopt_topics(self._states.values())
        for state, change in changes.items():
            if change is not TopicChange.WHILE_READING:
                continue
            offset = self._buffer.position(state)
            log.warning("topic.recreated partition=%s offset=%s", state.topic_partition, offset)
            self._buffer.drop(state)
            state.jump_to_timestamp(self._reset_to)
            if self._reset_to is None:
                error = OffsetOutOfRangeError(state.topic_partition, offset, is_recreated=True)
                self._buffer.fail(state, error, retry_at_s=0.0)
                self._on_arrival()
        self._request_topics()
        self._wake()
        return [state.topic_partition for state in changes]

    # Positions

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        """Return the state of a partition.

        Raises:
            NotAssignedError: the partition is not assigned.
            ConfigurationError: it is no partition.
        """
        try:
            return self._states[topic_partition]
        except (KeyError, TypeError):
            # A list cannot be a key, and any other value may have been meant as a partition.
            place = require_partition(topic_partition)
        if place not in self._states:
            raise NotAssignedError(place)
        return self._states[place]

    def states(self, partitions: Sequence[TopicPartition]) -> list[PartitionState]:
        """Return the states of `partitions`, of all assigned ones if it is empty.

        Raises:
            NotAssignedError: one of them is not assigned.
        """
        return [self.state(each) for each in partitions or self._states]

    def seek(self, state: PartitionState, offset: int) -> None:
        """Continue at `offset`, which is one of the topic that exists now.

        The metadata may be older: its topic may have been deleted and created again. The first
        fetch shows it, or with brokers that know no topic ids in fetches the next metadata.
        """
        self._buffer.drop(state)
        state.jump(Offset(offset))
        if self._cluster is not None:
            state.forget_topic(since=self._cluster.refresh_count + 1)
        self._wake()

    def seek_to_committed(self, states: Iterable[PartitionState]) -> None:
        """Continue at the committed offsets of the group, or else where new partitions start."""
        for state in states:
            self._buffer.drop(state)
            state.jump_to_committed(self._reset_to)
        self._wake()

    def seek_found(self, found: Mapping[TopicPartition, Offset]) -> None:
        """Continue at the offsets of a lookup; skip partitions taken away in the meantime."""
        for topic_partition, offset in found.items():
            if topic_partition in self._states:
                self.seek(self._states[topic_partition], offset)

    def pause(self, states: Iterable[PartitionState]) -> None:
        """Hand over no records of these partitions until `resume`."""
        for state in states:
            self._buffer.pause(state)
        # Another partition may need the room of their fetched data.
        self._wake()

    def resume(self, states: Iterable[PartitionState]) -> None:
        """Hand over records of these partitions again."""
        for state in states:
            self._buffer.resume(state)
        self._on_arrival()
        self._wake()

    def handed_over(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions after all records handed over so far."""
        return {
            each: CommittedOffset(offset, self._buffer.position_epoch(state))
            for each, state in self._states.items()
            if (offset := self._buffer.position(state)) is not None
        }

    def processed(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions after all processed records, without those still in hand."""
        found = self.handed_over()
        for each in found:
            first = self._buffer.first_in_hand(self._states[each])
            if first is not None and first.offset < found[each].offset:
                found[each] = CommittedOffset(first.offset, first.leader_epoch)
        return found

    # Inside

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in list(partitions):
            state = self._states.pop(topic_partition, None)
            if state is not None:
                self._buffer.drop(state)
                state.abandon()

    def _add(self, partitions: Iterable[TopicPartition], *, wants_committed: bool) -> None:
        for topic_partition in partitions:
            if topic_partition not in self._states:
                state = PartitionState(TopicPartition(*topic_partition))
                state.reset_to = self._reset_to
                state.wants_committed = wants_committed
                self._states[state.topic_partition] = state

    def _adopt_topics(self, states: Iterable[PartitionState]) -> dict[PartitionState, TopicChange]:
        """Note the ids of the topics; return the partitions of topics that were created again."""
        assert self._cluster is not None
        refresh = self._cluster.metadata_refresh
        changes = {
            state: state.adopt_topic(held.topic_id, refresh)
            for state in states
            if (held := self._cluster.metadata.topics.get(state.topic_partition.topic)) is not None
        }
        return {state: each for state, each in changes.items() if each is not TopicChange.NONE}

    def _request_topics(self) -> None:
        """Refresh the metadata soon if it does not show yet which topics the positions are about.

        A topic that is created again after that resets them.
        """
        assert self._cluster is not None
        if any(state.awaits_topic for state in self._states.values()):
            self._cluster.request_refresh()

    def _update(self) -> None:
        if self._cluster is not None and self._fetcher is not None:
            # A change of the others is for `on_metadata`.
            self._adopt_topics(
                state for state in self._states.values() if state.topic_id == ZERO_TOPIC_ID
            )
            topics = {each.topic for each in self._states}
            self._cluster.keep_topics(topics | self._other_topics)
            self._fetcher.assign(self._states.values())

    def _wake(self) -> None:
        if self._fetcher is not None:
            self._fetcher.wake()
