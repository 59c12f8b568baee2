"""A controller that is paused while another is elected changes nothing afterwards (T6)."""

from collections.abc import Callable

import pytest

from clusterstate.znodes import paths
from clusterstate.znodes.controller_node import encode_controller_epoch
from controller import events as e
from controller.controller_config import ControllerConfig
from controller.plan import Planner
from kafkawire.ids import BrokerId, TopicId, TopicPartition
from tests.plans.coordinator import Coordinator
from tests.plans.driver import Driver, empty_cluster, join, put_topic

B1, B2, B3 = map(BrokerId, (1, 2, 3))
T0 = TopicPartition("orders", 0)

Task = Callable[[Coordinator, Driver], e.Event]
"""Changes something for the controller to react to, and returns the event."""


def lose_broker(coordinator: Coordinator, other: Driver) -> e.Event:
    coordinator.end_session(other.session)
    return e.BrokerChange()


def create_topic(coordinator: Coordinator, _: Driver) -> e.Event:
    put_topic(coordinator, (1, 2), (2, 1), name="new")
    return e.TopicChange()


def delete_topic(coordinator: Coordinator, _: Driver) -> e.Event:
    coordinator.put(paths.topic_deletion("empty"))
    return e.TopicDeletion()


def move_partition(_: Coordinator, __: Driver) -> e.Event:
    return e.ReassignmentRequested({T0: [B3, B2]})


def write_after(task: Task, write_count: int) -> bool:
    """Pause the task before its next write; return False if it ends with `write_count` writes."""
    driver = empty_cluster(1)
    coordinator = driver.coordinator
    other = join(coordinator, B2)
    join(coordinator, B3)
    put_topic(coordinator, (2, 1), (1, 2))
    put_topic(coordinator, name="empty")
    planner = Planner(ControllerConfig(broker_id=B1), lambda: TopicId(int=9))
    driver.run(planner.plan(e.Reelect(), 0))
    event = task(coordinator, other)
    before: list[object] = []

    def elect_another() -> None:
        if len(before) == write_count:
            coordinator.remove(paths.CONTROLLER)
            coordinator.put(paths.CONTROLLER_EPOCH, encode_controller_epoch(7))
        before.append(str(coordinator.nodes))

    driver.before_write = elect_another
    driver.run(planner.plan(event, 0))
    if len(before) <= write_count:
        return False
    assert str(coordinator.nodes) == before[write_count]
    assert planner.cluster is None, "the zombie is still active"
    return True


@pytest.mark.parametrize("task", [lose_broker, create_topic, delete_topic, move_partition])
def test_a_zombie_changes_nothing(task: Task) -> None:
    write_count = 0
    while write_after(task, write_count):
        write_count += 1
    assert write_count > 0
