"""Topics without a cluster: this broker creates them, leads them, and says so (edge).

Fills the metadata cache until the controller does, and goes when it comes. What is on disk is the
truth: a topic is its partitions' directories and the topic id in them, plus its configs' file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import uuid4

import structlog

from broker.admin_queue import give_way
from broker.errors import as_api_error
from broker.local_state import LocalState, write_local_state
from broker.metadata_cache import NO_LEADER, MetadataCache, PartitionState, TopicState
from broker.replica_manager import ReplicaManager
from broker.topic_plan import TopicDefaults, TopicPlan, TopicWish, plan_topic
from kafkawire.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from storage.config import LogConfig
from storage.directory import Logs
from storage.errors import StorageError
from storage.log import Log

FIRST_EPOCH: Final = 0

log = structlog.get_logger(__name__)


class LocalTopics:
    """The topics of a broker that stands alone."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        logs: Logs,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        defaults: TopicDefaults,
        state: LocalState,
        state_directory: Path,
        now_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._metadata = metadata
        self._replicas = replicas
        self._defaults = defaults
        self._state = state
        self._state_directory = state_directory
        self._now_ms = now_ms

    def load(self) -> None:
        """Lead every partition that is on disk, and put its topic into the metadata cache.

        Raises:
            OSError: the start cannot be noted down.
        """
        self._write(replace(self._state, start_count=self._state.start_count + 1))
        by_topic: defaultdict[str, list[Log]] = defaultdict(list)
        for each in self._logs:
            by_topic[each.topic_partition.topic].append(each)
        for name, logs in by_topic.items():
            self._load_topic(name, logs)

    async def auto_create(self, name: str) -> None:
        """Create a topic that a client has asked for; see `TopicSource`."""
        if name not in self._metadata.image.topics:
            plan = plan_topic(TopicWish(name=name), self._metadata.image, self._defaults)
            await self.create(plan)

    async def create(self, plan: TopicPlan) -> TopicState:
        """Create a topic; see `TopicSource`."""
        topic_id = uuid4()
        with _told_to_clients():
            self._save_configs(plan.name, plan.configs)
            states = await self._lead_new(plan.name, topic_id, range(len(plan.assignments)))
        log.info("topic.created", topic=plan.name, partition_count=len(states))
        return self._publish(plan.name, topic_id, states)

    async def add_partitions(self, name: str, assignments: Sequence[tuple[BrokerId, ...]]) -> None:
        """Add partitions; see `TopicSource`."""
        topic = self._metadata.image.topics[name]
        first = max(topic.partitions) + 1
        with _told_to_clients():
            added = await self._lead_new(
                name, topic.topic_id, range(first, first + len(assignments))
            )
        log.info("topic.grown", topic=name, partition_count=first + len(added))
        self._publish(name, topic.topic_id, [*topic.partitions.values(), *added])

    async def delete(self, name: str) -> None:
        """Delete a topic; see `TopicSource`."""
        topic = self._metadata.image.topics[name]
        self._metadata.remove_topics([name])
        with _told_to_clients():
            self._drop(TopicPartition(name, index) for index in topic.partitions)
            await give_way()
            self._save_configs(name, {})
        log.info("topic.deleted", topic=name)

    def configs_of(self, name: str) -> Mapping[str, str]:
        """Return what a topic sets; see `TopicSource`."""
        return self._state.configs.get(name, {})

    def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace what a topic sets; see `TopicSource`."""
        config = self.log_config(name, configs)
        with _told_to_clients():
            self._save_configs(name, configs)
        self._replicas.update_topic_config(name, config)

    def log_config(self, name: str, configs: Mapping[str, str] | None = None) -> LogConfig:
        """Return the configs of a topic's logs, with `configs` in place of what it sets now."""
        overrides = self.configs_of(name) if configs is None else configs
        return LogConfig.from_properties(overrides, self._defaults.log_config)

    def on_directory_failed(self, path: Path) -> None:
        """Give up the partitions in a log dir that has failed."""
        lost = self._replicas.on_directory_failed(path)
        for name in {partition.topic for partition in lost}:
            topic = self._metadata.image.topics[name]
            states = [
                self._offline(state) if TopicPartition(name, index) in lost else state
                for index, state in topic.partitions.items()
            ]
            self._publish(name, topic.topic_id, states)

    def _load_topic(self, name: str, logs: Sequence[Log]) -> None:
        known_ids = [each.topic_id for each in logs if each.topic_id is not None]
        topic_id = known_ids[0] if known_ids else uuid4()
        states = []
        for each in logs:
            if each.topic_id not in (None, topic_id):
                # Of a topic that was deleted, and made again, while this directory was away.
                self._logs.set_aside_as_stray(each.topic_partition)
                continue
            each.assign_topic_id(topic_id)
            # Epochs of earlier starts must not come back, also if nothing was written in them.
            states.append(self._lead(each, topic_id, epoch=self._state.start_count))
        self._publish(name, topic_id, states)

    async def _lead_new(
        self, name: str, topic_id: TopicId, indexes: Iterable[int]
    ) -> list[PartitionState]:
        """Create logs and lead them; all of them or none."""
        config, now_ms = self.log_config(name), self._now_ms()
        states: list[PartitionState] = []
        try:
            for index in indexes:
                partition = TopicPartition(name, index)
                created = self._logs.create(partition, config, topic_id, now_ms=now_ms)
                states.append(self._lead(created, topic_id, epoch=FIRST_EPOCH))
                await give_way()
        except BaseException:
            self._drop(TopicPartition(name, state.index) for state in states)
            raise
        return states

    def _lead(self, each: Log, topic_id: TopicId, epoch: int) -> PartitionState:
        """Lead a partition from now on, in `epoch` or a later one."""
        partition = each.topic_partition
        leader_epoch = LeaderEpoch(max(epoch, each.leader_epochs.latest + 1))
        self._replicas.lead_alone(
            each, topic_id, leader_epoch, self._logs.high_watermark(partition)
        )
        return PartitionState(
            index=partition.partition,
            leader=self._broker_id,
            leader_epoch=leader_epoch,
            replicas=(self._broker_id,),
            isr=(self._broker_id,),
        )

    def _offline(self, state: PartitionState) -> PartitionState:
        return replace(state, leader=NO_LEADER, offline_replicas=(self._broker_id,))

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        dropped = list(partitions)
        for partition in dropped:
            if self._replicas.holds(partition):
                self._replicas.remove(partition)
        self._logs.delete(*dropped)

    def _publish(
        self, name: str, topic_id: TopicId, states: Iterable[PartitionState]
    ) -> TopicState:
        topic = TopicState(
            name=name, topic_id=topic_id, partitions={state.index: state for state in states}
        )
        self._metadata.put_topics([topic])
        return topic

    def _save_configs(self, name: str, configs: Mapping[str, str]) -> None:
        if dict(configs) == self.configs_of(name):
            return
        changed = {**self._state.configs, name: dict(configs)}
        if not configs:
            del changed[name]
        self._write(replace(self._state, configs=changed))

    def _write(self, state: LocalState) -> None:
        write_local_state(self._state_directory, state)
        self._state = state


@contextmanager
def _told_to_clients() -> Iterator[None]:
    """Turn a failure of the disk into what clients are told."""
    try:
        yield
    except (StorageError, OSError) as error:
        raise as_api_error(error) from error
