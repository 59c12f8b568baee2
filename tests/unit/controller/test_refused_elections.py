"""Brokers that may not read the cluster's state: `controller.refused_elections`."""

import pytest

from clusterstate.plans import Write
from clusterstate.znodes import paths
from controller import events as e
from controller.controller_config import ControllerConfig
from controller.effects import Enqueue, Note
from controller.plan import Planner
from controller.refused_elections import FIRST_BACKOFF_MS, MAX_BACKOFF_MS
from kafkawire.ids import BrokerId
from kafkawire.messages.stop_replica import StopReplicaResponse
from tests.plans.driver import Driver
from tests.unit.controller.test_plans import B1, B2, B3, NEW_ID, T0, Harness

FIRST, SECOND = (e.ElectionDue(), FIRST_BACKOFF_MS), (e.ElectionDue(), 2 * FIRST_BACKOFF_MS)


class Candidate:
    """A broker that runs for election after the controller has left."""

    def __init__(self, harness: Harness, broker_id: BrokerId = B2) -> None:
        self.driver = Driver(harness.coordinator)
        self.planner = Planner(ControllerConfig(broker_id=broker_id), lambda: NEW_ID)

    def do(self, event: e.Event) -> list[tuple[e.Event, int]]:
        """Handle an event; return the queued ones with their delays."""
        self.driver.effects.clear()
        self.driver.requests.clear()
        self.driver.run(self.planner.plan(event, 0))
        effects = self.driver.effects
        return [(one.event, one.delay_ms) for one in effects if isinstance(one, Enqueue)]

    def errors(self) -> list[object]:
        """Return the errors of the last event for operators."""
        effects = self.driver.effects
        return [one.fields["error"] for one in effects if isinstance(one, Note) and one.is_trouble]

    def has_written(self) -> bool:
        """Whether the last event wrote anything."""
        return any(isinstance(one, Write) for one in self.driver.requests)


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.coordinator.remove(paths.CONTROLLER)
    return harness


@pytest.mark.parametrize("path", [paths.BROKER_IDS, paths.TOPICS])
def test_broker_that_may_not_read_the_cluster_lets_others_be_elected(
    harness: Harness, path: str
) -> None:
    harness.coordinator.unreadable.add(path)
    one, other = Candidate(harness), Candidate(harness, B3)
    assert one.do(e.Reelect()) == [FIRST]
    [error] = one.errors()
    assert path in str(error)
    assert paths.CONTROLLER not in harness.coordinator.nodes
    assert (one.planner.is_active, one.planner.controller_id) == (False, None)
    # The notification of the deleted znode causes no attempt.
    assert one.do(e.Reelect()) == []
    assert not one.has_written()
    harness.coordinator.unreadable.clear()
    other.do(e.Reelect())
    assert other.planner.is_active
    assert one.do(e.ElectionDue()) == []
    assert one.planner.controller_id == B3


def test_attempts_back_off_and_change_nothing(harness: Harness) -> None:
    harness.coordinator.unreadable.add(paths.TOPICS)
    candidate = Candidate(harness)
    candidate.do(e.Reelect())
    epoch = harness.coordinator.nodes[paths.CONTROLLER_EPOCH].data
    delays = []
    for _ in range(8):
        [(event, delay_ms)] = candidate.do(e.ElectionDue())
        assert event == e.ElectionDue()
        assert len(candidate.errors()) == 1
        assert not candidate.has_written()
        delays.append(delay_ms)
    assert delays == [1000 * each for each in (2, 4, 8, 16, 32, 60, 60, 60)]
    assert max(delays) == MAX_BACKOFF_MS
    assert harness.coordinator.nodes[paths.CONTROLLER_EPOCH].data == epoch
    harness.coordinator.unreadable.clear()
    candidate.do(e.ElectionDue())
    assert candidate.planner.is_active
    assert candidate.planner.cluster is not None
    assert candidate.planner.cluster.topics == {"orders"}
    # The next back-off is short again.
    harness.coordinator.unreadable.add(paths.TOPICS)
    candidate.driver.run(candidate.planner.give_up())
    candidate.do(e.Expire())
    assert candidate.do(e.Reelect()) == [FIRST]


def test_attempt_of_the_next_session_does_not_wait(harness: Harness) -> None:
    """The delayed event may have been dropped with the session."""
    harness.coordinator.unreadable.add(paths.TOPICS)
    candidate = Candidate(harness)
    candidate.do(e.Reelect())
    candidate.do(e.Expire())
    assert candidate.do(e.Reelect()) == [SECOND]


@pytest.mark.parametrize("is_readable", [False, True])
def test_unusable_controller_epoch_is_no_bug(harness: Harness, is_readable: bool) -> None:
    if is_readable:
        harness.coordinator.put(paths.CONTROLLER_EPOCH, b"first")
    else:
        harness.coordinator.unreadable.add(paths.CONTROLLER_EPOCH)
    candidate = Candidate(harness)
    assert candidate.do(e.Reelect()) == [FIRST]
    assert candidate.do(e.ElectionDue()) == [SECOND]
    assert not candidate.has_written()


def test_topic_whose_partitions_may_not_be_listed_is_deleted() -> None:
    """It would stop each controller in turn."""
    harness = Harness((1,))
    harness.coordinator.unreadable.add(paths.partitions("orders"))
    # Not known to the controller, so the znodes are deleted by levels.
    harness.coordinator.put(f"{paths.partition(T0)}/other")
    harness.coordinator.put(paths.topic_deletion("orders"))
    harness.do(e.TopicDeletion())
    answer = StopReplicaResponse()
    harness.do(e.StopReplicaResponseReceived(B1, harness.epoch(B1), answer, [T0]))
    assert paths.partition_state(T0) not in harness.coordinator.nodes
    assert harness.cluster.topics == set()
