"""Runs a plan to its end with a coordinator in memory, without delays."""

from collections.abc import Callable
from typing import TypeVar

from clusterstate.broker_registration import Registered, Sessions, create_top_nodes, register
from clusterstate.plans import ListChildren, Read, Write
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import paths
from clusterstate.znodes.controller_node import encode_controller_epoch
from clusterstate.znodes.registration import Endpoint, Registration
from clusterstate.znodes.topic import TopicAssignment
from controller.cluster import Cluster
from controller.controller_config import ControllerConfig
from controller.effects import Effect, Plan
from kafkawire.ids import BrokerId, TopicId, TopicPartition
from tests.plans.coordinator import Coordinator

T = TypeVar("T")
E = TypeVar("E")
ORDERS_ID = TopicId(int=7)


class Driver:
    """Session with a coordinator, which runs plans.

    With `repeats`, the answer to the first copy of each write is lost: the write is applied twice,
    and the plan gets the second answer.
    """

    def __init__(self, coordinator: Coordinator | None = None, *, repeats: bool = False) -> None:
        self.coordinator = coordinator or Coordinator()
        self.session = self.coordinator.open_session()
        self.repeats = repeats
        self.effects: list[Effect] = []
        self.requests: list[Read | ListChildren | Write] = []
        self.before_write: Callable[[], None] = lambda: None

    def run(self, plan: Plan[T]) -> T:
        """Run a plan and return its result; effects without an answer are kept in `effects`."""
        answer = None
        while True:
            try:
                effect = plan.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = None
            if isinstance(effect, Read | ListChildren | Write):
                self.requests.append(effect)
                if isinstance(effect, Write):
                    self.before_write()
                    if self.repeats:
                        self.coordinator.perform(self.session, effect)
                answer = self.coordinator.perform(self.session, effect)
            else:
                self.effects.append(effect)

    def take(self, kind: type[E]) -> list[E]:
        """Return the effects of one kind so far, and clear all effects."""
        found: list[E] = [one for one in self.effects if isinstance(one, kind)]
        self.effects.clear()
        return found


def empty_cluster(*broker_ids: int, repeats: bool = False) -> Driver:
    """Return an operator's session with a cluster in which `broker_ids` are registered."""
    driver = Driver(repeats=repeats)
    driver.run(create_top_nodes())
    driver.coordinator.put(paths.CONTROLLER_EPOCH, encode_controller_epoch(1))
    for broker_id in broker_ids:
        join(driver.coordinator, BrokerId(broker_id))
    return driver


def join(coordinator: Coordinator, broker_id: BrokerId, first_epoch: int | None = None) -> Driver:
    """Register a broker in its own session, and return that."""
    driver = Driver(coordinator)
    registration = Registration(
        broker_id=broker_id,
        endpoints=(Endpoint("PLAINTEXT", "h", 9092 + broker_id),),
        first_epoch=first_epoch,
    )
    data = registration.encode(timestamp_ms=0)
    result = driver.run(register(broker_id, data, Sessions(driver.session)))
    assert isinstance(result, Registered)
    return driver


def empty_image(config: ControllerConfig | None = None, epoch: int = 1) -> Cluster:
    """Return an empty image of the controller that wrote the controller epoch last."""
    return Cluster(
        config or ControllerConfig(broker_id=BrokerId(1)), epoch=epoch, epoch_version=epoch - 1
    )


def put_topic(
    coordinator: Coordinator, *replicas: tuple[int, ...], name: str = "orders"
) -> list[TopicPartition]:
    """Write a topic's znode, with one partition per tuple of brokers; return the partitions."""
    assigned = {
        number: ReplicaAssignment(replicas=tuple(map(BrokerId, one)))
        for number, one in enumerate(replicas)
    }
    topic_id = ORDERS_ID if name == "orders" else TopicId(int=len(name))
    coordinator.put(paths.topic(name), TopicAssignment(topic_id, assigned).encode())
    return [TopicPartition(name, number) for number in assigned]
