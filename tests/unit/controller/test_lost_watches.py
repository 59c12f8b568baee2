"""A controller without permission to read znodes for some time, whose watches are then lost."""

import pytest

from clusterstate.broker_registration import update
from clusterstate.plans import Read
from clusterstate.znodes import paths
from clusterstate.znodes.admin import encode_reassignment
from clusterstate.znodes.controller_node import encode_controller
from clusterstate.znodes.notification import encode_partitions
from clusterstate.znodes.registration import Endpoint, Registration
from clusterstate.znodes.topic import decode_topic
from controller import events as e
from controller.controller_config import ControllerConfig
from controller.effects import Enqueue, Note
from controller.plan import Planner
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from tests.plans.driver import join, put_topic
from tests.unit.controller.test_plans import B1, B2, B3, NEW_ID, T0, Harness

PARENTS: dict[str, e.Event] = {
    paths.BROKER_IDS: e.BrokerChange(),
    paths.TOPICS: e.TopicChange(),
    paths.DELETE_TOPICS: e.TopicDeletion(),
    paths.ISR_CHANGES: e.IsrChange(),
    paths.LOG_DIR_EVENTS: e.LogDirEvent(),
}


def reread(harness: Harness) -> list[e.Event]:
    """Read all watched znodes again, and return the events in their order."""
    harness.driver.effects.clear()
    harness.do(e.RereadDue())
    events = [one.event for one in harness.driver.take(Enqueue)]
    for event in events:
        harness.do(event)
    return events


def test_every_watched_znode_is_read_again() -> None:
    harness = Harness()
    assert reread(harness) == [
        e.Reelect(),
        *PARENTS.values(),
        e.ReassignmentNode(),
        e.PreferredElectionNode(),
        *map(e.BrokerModification, (B1, B2, B3)),
    ]
    assert harness.planner.is_active


@pytest.mark.parametrize("path", PARENTS)
def test_controller_keeps_its_image_of_a_parent_that_it_may_not_read(path: str) -> None:
    harness = Harness()
    harness.coordinator.unreadable.add(path)
    harness.do(PARENTS[path])
    assert [one.fields["path"] for one in harness.driver.take(Note)] == [path]
    assert set(harness.cluster.brokers) == {B1, B2, B3}
    assert harness.cluster.topics == {"orders"}
    put_topic(harness.coordinator, (1, 2), name="late")
    harness.end(B3)
    harness.coordinator.put(paths.topic_deletion("orders"))
    harness.coordinator.unreadable.clear()
    reread(harness)
    assert set(harness.cluster.brokers) == {B1, B2}
    assert "late" in harness.cluster.topics
    assert harness.cluster.is_being_deleted("orders")


@pytest.mark.parametrize("path", [paths.DELETE_TOPICS, paths.ISR_CHANGES, paths.LOG_DIR_EVENTS])
def test_broker_takes_over_though_it_may_not_read_requests_and_notifications(path: str) -> None:
    harness = Harness()
    harness.coordinator.unreadable.add(path)
    harness.succeed()
    assert harness.state().leader == B2


def test_broker_whose_registration_may_not_be_read_stays_registered() -> None:
    harness = Harness()
    harness.coordinator.unreadable.add(paths.broker(B2))
    reread(harness)
    assert set(harness.cluster.brokers) == {B1, B2, B3}
    harness.end(B2)
    reread(harness)
    assert set(harness.cluster.brokers) == {B1, B3}
    harness.coordinator.unreadable.clear()
    join(harness.coordinator, B2)
    harness.coordinator.unreadable.add(paths.broker(B2))
    reread(harness)
    assert set(harness.cluster.brokers) == {B1, B3}, "its address is not known"
    harness.coordinator.unreadable.clear()
    reread(harness)
    assert set(harness.cluster.brokers) == {B1, B2, B3}


def test_endpoints_that_changed_without_a_notification_are_read_again() -> None:
    harness = Harness()
    endpoint = Endpoint("PLAINTEXT", "elsewhere", 7)
    data = Registration(broker_id=B2, endpoints=(endpoint,)).encode(timestamp_ms=0)
    assert harness.driver.run(update(B2, harness.epoch(B2), data))
    reread(harness)
    assert harness.cluster.brokers[B2].registration.endpoints == (endpoint,)


def test_only_topics_that_changed_are_watched_again() -> None:
    harness = Harness((1, 2, 3))
    put_topic(harness.coordinator, (1,), name="other")
    harness.do(e.TopicChange())
    assert e.PartitionModification("orders") not in reread(harness)
    harness.coordinator.unreadable.add(paths.topic("orders"))
    assert e.PartitionModification("orders") in reread(harness)
    put_topic(harness.coordinator, (1, 2, 3), (2, 3, 1))
    assert e.PartitionModification("orders") not in reread(harness), "it cannot be watched"
    harness.coordinator.unreadable.clear()
    harness.driver.requests.clear()
    assert e.PartitionModification("orders") in reread(harness)
    assert Read((paths.topic("orders"),), watch=True) in harness.driver.requests
    assert harness.state(TopicPartition("orders", 1)).leader == B2
    assert e.PartitionModification("orders") not in reread(harness)


def test_versions_of_topics_are_forgotten_with_them() -> None:
    harness = Harness()
    harness.coordinator.put(paths.topic("broken"), b"{oops")
    harness.do(e.TopicChange())
    assert set(harness.cluster.topic_versions) == {"orders", "broken"}
    for path in [*harness.coordinator.nodes]:
        if path.startswith((paths.topic("orders"), paths.topic("broken"))):
            del harness.coordinator.nodes[path]
    assert reread(harness)
    assert harness.cluster.topic_versions == {}


def test_controller_stays_while_it_may_not_read_its_znode() -> None:
    harness = Harness()
    harness.coordinator.unreadable.add(paths.CONTROLLER)
    reread(harness)
    assert (harness.planner.is_active, harness.planner.controller_id) == (True, B1)


def test_deleted_controller_that_sent_no_notification_is_replaced() -> None:
    harness = Harness()
    other = Planner(ControllerConfig(broker_id=B2), lambda: NEW_ID)
    driver = harness.sessions[B2]
    driver.run(other.plan(e.RereadDue(), 0))
    assert driver.take(Enqueue) == [], "it has not stood for election yet"
    driver.run(other.plan(e.Reelect(), 0))
    harness.coordinator.remove(paths.CONTROLLER)
    driver.run(other.plan(e.RereadDue(), 0))
    assert [one.event for one in driver.take(Enqueue)] == [e.Reelect()]
    driver.run(other.plan(e.Reelect(), 0))
    assert other.is_active


def test_unreadable_controller_is_nobody_to_a_broker_that_knew_none() -> None:
    harness = Harness()
    harness.coordinator.unreadable.add(paths.CONTROLLER)
    other = Planner(ControllerConfig(broker_id=B2), lambda: NEW_ID)
    harness.sessions[B2].run(other.plan(e.Reelect(), 0))
    assert (other.controller_id, other.is_active) == (-1, False)


def test_controller_that_left_before_its_election_was_read_is_replaced() -> None:
    """Its deletion sends no notification, because no watch for it was set."""
    harness = Harness()
    other = Planner(ControllerConfig(broker_id=B2), lambda: NEW_ID)
    driver = harness.sessions[B2]
    harness.coordinator.remove(paths.CONTROLLER)
    driver.run(other.plan(e.ControllerChange(), 0))
    assert [one.event for one in driver.take(Enqueue)] == [e.Reelect()]
    harness.coordinator.put(paths.CONTROLLER, encode_controller(B1, 0))
    driver.run(other.plan(e.ControllerChange(), 0))
    assert driver.take(Enqueue) == []


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (paths.PREFERRED_ELECTION, encode_partitions([T0])),
        (paths.REASSIGN_PARTITIONS, encode_reassignment({T0: (B1, B2, B3)})),
    ],
)
def test_request_of_a_tool_that_cannot_be_deleted_is_not_repeated_for_ever(
    path: str, data: bytes
) -> None:
    """The watch notifies the controller of the next change."""
    harness = Harness()
    harness.coordinator.put(path, data)
    harness.coordinator.unreadable.add(path)
    events: tuple[e.Event, ...] = (e.PreferredElectionNode(), e.ReassignmentNode())
    for event in events:
        harness.do(event)
    assert path in harness.coordinator.nodes
    assert harness.driver.take(Enqueue) == []
    harness.coordinator.unreadable.clear()
    reread(harness)
    assert path not in harness.coordinator.nodes
    assert harness.do(e.ElectLeadersRequested([T0])) == {T0: ErrorCode.ELECTION_NOT_NEEDED}
    assert decode_topic(harness.coordinator.nodes[paths.topic("orders")].data).partitions
