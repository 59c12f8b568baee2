"""Several broker processes on one coordinator, and their view of the cluster (edge)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import wait_until
from tests.ports import free_port

IDS = (1, 2, 3)


NOT_ALIVE = ErrorCode.INVALID_REPLICA_ASSIGNMENT
"""Also the controller's error for an assignment to a broker that does not exist."""


class BrokerCluster:
    """Brokers by their ids; running brokers are stopped at the end."""

    def __init__(
        self, directory: Path, coordinator: str, overrides: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.brokers: dict[int, BrokerProcess] = {}
        self._overrides = {
            "zookeeper.connect": coordinator,
            "zookeeper.session.timeout.ms": "4000",
            "auto.leader.rebalance.enable": "false",
            **(overrides or {}),
        }
        # Each broker keeps its address after a restart, like on its own machine.
        self._ports = {broker_id: free_port() for broker_id in IDS}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_trouble: object) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def port(self, broker_id: int) -> int:
        """Return the port that a broker listens on."""
        return self._ports[broker_id]

    def start(self, *broker_ids: int, **overrides: str) -> None:
        """Start brokers, and wait until they are ready; `overrides` are for these only."""
        for broker_id in broker_ids:
            own = {
                **self._overrides,
                "broker.id": str(broker_id),
                "listeners": f"PLAINTEXT://127.0.0.1:{self._ports[broker_id]}",
                **overrides,
            }
            self.brokers[broker_id] = BrokerProcess(self.data_dir(broker_id), own)
        for broker_id in broker_ids:
            self.brokers[broker_id].wait_for_event(READY_EVENT)

    def data_dir(self, broker_id: int) -> Path:
        """Return the log dir of a broker."""
        return self.directory / f"broker-{broker_id}"

    def wire(self, broker_id: int) -> Wire:
        """Return a connection to a broker."""
        return Wire(self._ports[broker_id])

    def metadata(self, asked: int, *topics: str) -> MetadataResponse:
        """Return the metadata of topics from broker `asked`."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        with self.wire(asked) as wire:
            return wire.ask(ApiKey.METADATA, 12, request, MetadataResponse)

    def partitions(self, asked: int, topic: str) -> list[MetadataResponsePartition]:
        """Return the metadata of a topic's partitions from broker `asked`."""
        [found] = self.metadata(asked, topic).topics
        return sorted(found.partitions, key=lambda each: each.partition_index)

    def controller(self, asked: int) -> int:
        """Return the id of the controller from broker `asked`."""
        return self.metadata(asked).controller_id

    def create_topic(self, name: str, assignments: Sequence[Sequence[int]], **configs: str) -> None:
        """Create a topic on chosen brokers, through the controller."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in enumerate(assignments)
            ],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)

        def is_created() -> bool:
            with self.wire(self.controller(self.running[0])) as wire:
                answer = wire.ask(ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse)
            [result] = answer.topics
            # The controller may not know a broker that has just restarted.
            assert result.error_code in (ErrorCode.NONE, NOT_ALIVE), result
            return result.error_code == ErrorCode.NONE

        wait_until(is_created)
        self.until_all_say(lambda broker_id: len(self.partitions(broker_id, name)) > 0)

    @property
    def running(self) -> list[int]:
        """Ids of the brokers with a live process."""
        return [
            broker_id for broker_id, broker in self.brokers.items() if broker.process.poll() is None
        ]

    def until_all_say(
        self, condition: Callable[[int], bool], among: Iterable[int] | None = None
    ) -> None:
        """Wait until `condition` holds for every running broker."""
        asked = list(self.running if among is None else among)
        wait_until(lambda: all(condition(broker_id) for broker_id in asked))

    def until_in_sync(self, topic: str, *isrs: set[int]) -> None:
        """Wait until the partitions of `topic` have these in-sync sets on every broker."""

        def says(broker_id: int) -> bool:
            found = self.partitions(broker_id, topic)
            return [set(each.isr_nodes) for each in found] == list(isrs)

        self.until_all_say(says)

    def leaders(self, asked: int, topic: str) -> list[int]:
        """Return the leader of each partition from broker `asked`."""
        return [each.leader_id for each in self.partitions(asked, topic)]
