"""Fencing of controllers' requests: `broker.cluster.control_fence`."""

from broker.cluster.control_fence import ControlFence, refuse_leadership, refuse_stop
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, LeaderEpoch, TopicId

ID, OTHER = TopicId(int=1), TopicId(int=2)


def test_newer_controller_is_adopted() -> None:
    fence = ControlFence(10)
    assert fence.refuse(3, 10) is None
    assert fence.refuse(3, 11) is None, (
        "the controller may know the next broker epoch before the broker"
    )
    assert fence.refuse(2, 10) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert fence.refuse(4, 9) is ErrorCode.STALE_BROKER_EPOCH


def test_request_on_a_connection_that_was_given_up_is_refused() -> None:
    fence = ControlFence(10)
    assert fence.refuse(3, 10, connection=5) is None
    assert fence.refuse(3, 10, connection=7) is None
    assert fence.refuse(3, 10, connection=5) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert fence.refuse(4, 10, connection=6) is None, "a newer controller"


def test_leadership_must_be_newer_and_of_the_same_topic() -> None:
    assert refuse_leadership(LeaderEpoch(2), ID, 3, ID) is None
    assert refuse_leadership(LeaderEpoch(2), ID, 2, ID) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert refuse_leadership(LeaderEpoch(2), ID, 3, OTHER) is ErrorCode.INCONSISTENT_TOPIC_ID
    assert refuse_leadership(LeaderEpoch(2), ID, 3, ZERO_TOPIC_ID) is None
    assert refuse_leadership(None, ZERO_TOPIC_ID, 0, ID) is None


def test_stop_of_an_older_leader_epoch_is_refused() -> None:
    assert refuse_stop(LeaderEpoch(2), 1) is ErrorCode.FENCED_LEADER_EPOCH
    assert refuse_stop(LeaderEpoch(2), 2) is None
    assert refuse_stop(LeaderEpoch(2), -2) is None
    assert refuse_stop(None, 0) is None
