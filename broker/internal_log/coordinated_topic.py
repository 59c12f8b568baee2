"""One internal topic whose partitions a coordinator leads, loads and writes (composition)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Generic, TypeVar

from broker.internal_log.leaderships import Leaderships
from broker.internal_log.loader import Loader, Replay
from broker.internal_log.store import InternalStore, Replicas
from broker.purgatory import Purgatory
from kafkawire.compression import Codec
from kafkawire.ids import LeaderEpoch, TopicPartition

R = TypeVar("R", bound=Replay)


class CoordinatedTopic(Generic[R]):
    """The store of a topic, and the loader of the partitions that this broker begins to lead."""

    def __init__(
        self,
        replicas: Replicas,
        purgatory: Purgatory[TopicPartition],
        name: str,
        leaderships: Leaderships,
        *,
        subject: str,
        make_replay: Callable[[], R],
        on_loaded: Callable[[int, R], int],
        codec: Codec,
        timeout_ms: int,
        buffer_bytes: int,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
    ) -> None:
        """See `InternalStore` for `codec` and `timeout_ms`, and `Loader` for the others."""
        self._name = name
        self._leaderships = leaderships
        self.store = InternalStore(
            replicas,
            purgatory,
            name,
            codec=codec,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
            has_led_since=leaderships.has_led_since,
        )
        self._loader = Loader(
            replicas,
            name,
            subject=subject,
            make_replay=make_replay,
            loop=loop,
            executor=executor,
            buffer_bytes=buffer_bytes,
            is_wanted=leaderships.is_loading_since,
            on_loaded=on_loaded,
        )
        self.stop = self._loader.stop

    def on_become_leader(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        """Load a partition, if it is one of this topic, and was not led before."""
        topic, partition = topic_partition
        if topic == self._name and self._leaderships.lead(partition, leader_epoch):
            self._loader.put(partition, leader_epoch)

    def leads(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition is one of this topic, and is loading or active here."""
        return (
            topic_partition.topic == self._name and topic_partition.partition in self._leaderships
        )
