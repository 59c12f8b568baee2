"""UpdateMetadata requests: `broker.handlers.control_requests`."""

from collections.abc import Sequence
from typing import cast

from broker.cluster.control_fence import ControlFence
from broker.cluster.metadata_cache import MetadataCache
from broker.handlers.control_requests import UpdateMetadataHandler
from broker.network.request import Request
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kafkawire.update_type import UpdateType
from tests.unit.broker.cluster.test_metadata_update import topic


class FakeConnection:
    def __init__(self, number: int) -> None:
        self.number = number


class FakeRequest:
    def __init__(self, connection: int) -> None:
        self.connection = FakeConnection(connection)


class World:
    """A broker with broker epoch 5."""

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.deleted: list[TopicPartition] = []
        self.handler = UpdateMetadataHandler(self.cache, ControlFence(5), self.deleted.extend)

    def tell(
        self,
        *brokers: int,
        topics: Sequence[str] = (),
        kind: UpdateType = UpdateType.UNKNOWN,
        controller_epoch: int = 1,
        broker_epoch: int = 5,
        connection: int = 1,
    ) -> int:
        message = UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            type=int(kind),
            topic_states=[topic(name, 1) for name in topics],
            live_brokers=[UpdateMetadataBroker(id=each, endpoints=[]) for each in brokers],
        )
        request = cast(Request, FakeRequest(connection))
        answer = self.handler.handle(request, message).message
        assert isinstance(answer, UpdateMetadataResponse)
        return answer.error_code


def test_the_controllers_metadata_is_adopted() -> None:
    world = World()
    assert world.tell(1, 2) == ErrorCode.NONE
    assert set(world.cache.image.brokers) == {1, 2}


def test_a_stale_request_changes_nothing() -> None:
    world = World()
    world.tell(1, controller_epoch=2, connection=7)
    assert world.tell(1, 2, controller_epoch=1) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world.tell(1, 2, controller_epoch=2, connection=6) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world.tell(1, 2, controller_epoch=3, broker_epoch=4) == ErrorCode.STALE_BROKER_EPOCH
    assert set(world.cache.image.brokers) == {1}


def test_a_topic_whose_deletion_was_missed_is_forgotten_with_its_offsets() -> None:
    world = World()
    world.tell(1, topics=["t", "u"])
    world.tell(1, topics=["u"])
    assert world.deleted == []
    world.tell(1, topics=["u"], kind=UpdateType.FULL)
    assert set(world.cache.image.topics) == {"u"}
    assert world.deleted == [TopicPartition("t", 0)]
