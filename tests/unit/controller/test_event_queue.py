"""Queue of the controller's events: `controller.event_queue`."""

from clusterstate.znodes import paths
from controller import events as e
from controller.event_queue import EventQueue
from kafkawire.ids import BrokerId


def test_events_stay_in_order_and_equal_ones_are_merged() -> None:
    queue: EventQueue[int] = EventQueue()
    assert queue.put(e.BrokerChange(), 1)
    assert queue.put(e.TopicChange(), 2)
    assert not queue.put(e.BrokerChange(), 3)
    assert queue.take() == (e.BrokerChange(), 1)
    assert queue.put(e.BrokerChange(), 4), "the event in progress may have read too early"
    assert [queue.take()[1] for _ in range(len(queue))] == [2, 4]


def test_requests_are_never_dropped() -> None:
    queue: EventQueue[int] = EventQueue()
    request = e.ControlledShutdownRequested(BrokerId(1), 5)
    assert [queue.put(request, number) for number in (1, 2)] == [True, True]


def test_the_kinds_of_pending_events_are_known() -> None:
    queue: EventQueue[int] = EventQueue()
    queue.put(e.TopicChange(), 1)
    assert queue.has(e.BrokerChange, e.TopicChange)
    assert not queue.has(e.BrokerChange, e.Expire)
    queue.take()
    assert not queue.has(e.TopicChange)


def test_expiry_replaces_all_pending_events() -> None:
    queue: EventQueue[int] = EventQueue()
    queue.put(e.BrokerChange(), 1)
    assert queue.expire(9) == [(e.BrokerChange(), 1)]
    assert queue.take() == (e.Expire(), 9)
    assert queue.put(e.BrokerChange(), 2)


def test_notifications_become_events() -> None:
    assert e.event_of_children(paths.BROKER_IDS) == e.BrokerChange()
    assert e.event_of_children("/elsewhere") is None
    assert e.event_of_node(paths.CONTROLLER, is_deleted=True) == e.Reelect()
    assert e.event_of_node(paths.CONTROLLER, is_deleted=False) == e.ControllerChange()
    changed = {
        path: e.event_of_node(path, is_deleted=False)
        for path in (
            paths.broker(7),
            paths.topic("t"),
            paths.REASSIGN_PARTITIONS,
            paths.PREFERRED_ELECTION,
            "/config/topics/t",
        )
    }
    assert list(changed.values()) == [
        e.BrokerModification(BrokerId(7)),
        e.PartitionModification("t"),
        e.ReassignmentNode(),
        e.PreferredElectionNode(),
        None,
    ]
    assert e.event_of_node(paths.topic("t"), is_deleted=True) is None


def test_deleted_requests_of_tools_are_events_that_watch_for_the_next_request() -> None:
    for path, event in (
        (paths.REASSIGN_PARTITIONS, e.ReassignmentNode()),
        (paths.PREFERRED_ELECTION, e.PreferredElectionNode()),
    ):
        assert e.event_of_node(path, is_deleted=True) == event
