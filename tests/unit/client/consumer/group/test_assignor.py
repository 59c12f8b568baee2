"""Assignors on small groups return the same assignments as Kafka's."""

import time

import pytest

from kafkawire.ids import TopicPartition
from kafkawire.messages.consumer_protocol import OwnedPartitions, StickyAssignorUserData
from kafkawire.schema import encode
from ottla.client.consumer.group.assignor import Assignment, Assignor, Subscription, in_order
from ottla.client.consumer.group.forgetful_assignor import RangeAssignor, RoundRobinAssignor
from ottla.client.consumer.group.sticky_assignor import CooperativeStickyAssignor, StickyAssignor

BOTH = Subscription(topics=["t", "u"])
ONLY_T = Subscription(topics=["t"])
LEVELING_LIMIT_S = 2.0


def parts(text: str) -> list[TopicPartition]:
    """Return the partitions in a text like "t0 t1 u2"."""
    return [TopicPartition(each[0], int(each[1:])) for each in text.split()]


def shown(assignment: Assignment) -> dict[str, str]:
    """Return an assignment in that notation."""
    return {
        member: " ".join(f"{topic}{index}" for topic, index in sorted(held))
        for member, held in assignment.items()
    }


@pytest.mark.parametrize(
    ("counts", "members", "expected"),
    [
        pytest.param(
            {"t": 3, "u": 3}, {"a": BOTH, "b": BOTH}, {"a": "t0 t1 u0 u1", "b": "t2 u2"}, id="alike"
        ),
        pytest.param(
            {"t": 2, "u": 2}, {"a": BOTH, "b": ONLY_T}, {"a": "t0 u0 u1", "b": "t1"}, id="by topic"
        ),
        pytest.param({"t": 1}, {"a": ONLY_T, "b": ONLY_T}, {"a": "t0", "b": ""}, id="too few"),
        pytest.param({}, {"a": ONLY_T}, {"a": ""}, id="no such topic"),
    ],
)
def test_ranges(
    counts: dict[str, int], members: dict[str, Subscription], expected: dict[str, str]
) -> None:
    assert shown(RangeAssignor().assign(counts, members)) == expected


@pytest.mark.parametrize(
    ("counts", "members", "expected"),
    [
        pytest.param(
            {"t": 3, "u": 3}, {"a": BOTH, "b": BOTH}, {"a": "t0 t2 u1", "b": "t1 u0 u2"}, id="alike"
        ),
        pytest.param(
            {"t": 2, "u": 2},
            {"a": BOTH, "b": ONLY_T},
            {"a": "t0 u0 u1", "b": "t1"},
            id="passed over",
        ),
        pytest.param({}, {"a": ONLY_T}, {"a": ""}, id="no such topic"),
    ],
)
def test_round_robin(
    counts: dict[str, int], members: dict[str, Subscription], expected: dict[str, str]
) -> None:
    assert shown(RoundRobinAssignor().assign(counts, members)) == expected


def test_static_members_come_first_by_instance_id() -> None:
    members = {
        "x": Subscription(topics=["t"], group_instance_id="2"),
        "y": Subscription(topics=["t"], group_instance_id="1"),
        "a": ONLY_T,
    }
    assert in_order(members) == ["y", "x", "a"]


def claim_of(text: str, generation: int = 1) -> bytes:
    """Return the user data of a sticky member that held these partitions."""
    return StickyAssignor().user_data(parts(text), generation) or b""


def test_sticky_members_get_back_their_partitions() -> None:
    members = {
        "a": Subscription(topics=["t"], user_data=claim_of("t1 t3 t4 t5")),
        "b": Subscription(topics=["t"], user_data=claim_of("t0")),
    }
    assignment = StickyAssignor().assign({"t": 6}, members)
    assert {"t0"} < set(shown(assignment)["b"].split())
    assert shown(assignment) == {"a": "t1 t3 t4", "b": "t0 t2 t5"}


def test_the_newest_claim_wins_and_equally_new_ones_cancel_out() -> None:
    members = {
        "a": Subscription(topics=["t"], user_data=claim_of("t0 t2", 1)),
        "b": Subscription(topics=["t"], user_data=claim_of("t0 t3", 2)),
        "c": Subscription(topics=["t"], user_data=claim_of("t3", 2)),
    }
    held = StickyAssignor().assign({"t": 6}, members)
    assert TopicPartition("t", 2) in held["a"]
    assert TopicPartition("t", 0) in held["b"]
    assert sorted(map(len, held.values())) == [2, 2, 2]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(None, id="none"),
        pytest.param(b"garbage", id="garbage"),
        pytest.param(claim_of("t9 v0"), id="unknown partitions"),
    ],
)
def test_an_unusable_claim_is_ignored(data: bytes | None) -> None:
    held = StickyAssignor().assign({"t": 2}, {"a": Subscription(topics=["t"], user_data=data)})
    assert shown(held) == {"a": "t0 t1"}


def test_the_older_format_of_a_claim_is_decoded() -> None:
    old = encode(
        StickyAssignorUserData(
            previous_assignment=[OwnedPartitions(topic="t", partitions=[1])], generation=-1
        ),
        0,
    )
    members = {"a": ONLY_T, "b": Subscription(topics=["t"], user_data=old)}
    assert shown(StickyAssignor().assign({"t": 2}, members)) == {"a": "t0", "b": "t1"}


def test_cooperative_members_wait_for_partitions_that_others_hold() -> None:
    members = {
        "a": Subscription(topics=["t"], owned=parts("t0 t1 t2 t3"), generation=3),
        "b": ONLY_T,
    }
    assignor: Assignor = CooperativeStickyAssignor()
    first = assignor.assign({"t": 4}, members)
    assert shown(first) == {"a": "t0 t1", "b": ""}
    members["a"] = Subscription(topics=["t"], owned=first["a"], generation=4)
    assert shown(assignor.assign({"t": 4}, members)) == {"a": "t0 t1", "b": "t2 t3"}


def test_the_generation_of_a_cooperative_claim_may_be_in_the_user_data() -> None:
    assignor = CooperativeStickyAssignor()
    members = {
        "a": Subscription(topics=["t"], owned=parts("t0"), user_data=assignor.user_data((), 4)),
        "b": Subscription(topics=["t"], owned=parts("t0"), user_data=assignor.user_data((), 5)),
        "c": Subscription(topics=["t"], user_data=b"of another assignor"),
    }
    held = assignor.assign({"t": 3}, members)
    assert held["b"] == parts("t0")


def test_a_chain_of_moves_balances_where_one_move_cannot() -> None:
    members = {
        "a": Subscription(topics=["t"], user_data=claim_of("t0 t1 t2 t3")),
        "b": Subscription(topics=["t", "u"], user_data=claim_of("u0 u1 u2")),
        "c": Subscription(topics=["u"]),
    }
    held = StickyAssignor().assign({"t": 4, "u": 3}, members)
    loads = {member: len(each) for member, each in held.items()}
    assert max(loads.values()) - min(loads.values()) <= 1


def test_thousands_of_partitions_move_within_the_time_of_a_few_heartbeats() -> None:
    """Measures CPU time, because wall-clock time depends on the load of the machine."""
    owned = [TopicPartition("t", index) for index in range(10_000)]
    members = {"a": Subscription(topics=["t"], owned=owned, generation=1), "b": ONLY_T}
    began_s = time.process_time()
    held = CooperativeStickyAssignor().assign({"t": len(owned)}, members)
    assert time.process_time() - began_s < LEVELING_LIMIT_S
    assert held == {"a": owned[:5_000], "b": []}
