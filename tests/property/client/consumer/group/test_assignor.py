"""Assignors give each partition to one subscriber; sticky ones are also balanced and stable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.ids import TopicPartition
from ottla.client.consumer.group.assignor import Assignment, Assignor, Subscription
from ottla.client.consumer.group.group_config import ASSIGNORS
from ottla.client.consumer.group.sticky_assignor import CooperativeStickyAssignor, StickyAssignor

TOPICS = ["t", "u", "v"]
Counts = dict[str, int]
Topics = dict[str, frozenset[str]]

counts_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
members_of_groups = st.dictionaries(
    st.sampled_from("abcde"), st.frozensets(st.sampled_from(TOPICS), min_size=1), min_size=1
)


def subscriptions(assignor: Assignor, topics: Topics, held: Assignment) -> dict[str, Subscription]:
    """Return members that have owned `held` since generation 1."""
    return {
        member: Subscription(
            topics=sorted(wanted),
            owned=held.get(member, ()),
            generation=1,
            user_data=assignor.user_data(held.get(member, []), 1),
        )
        for member, wanted in topics.items()
    }


def settled(assignor: Assignor, counts: Counts, topics: Topics, held: Assignment) -> Assignment:
    """Return the assignment after as many rebalances as the assignor needs."""
    for _ in range(3):
        held = assignor.assign(counts, subscriptions(assignor, topics, held))
    return held


def check_valid(counts: Counts, topics: Topics, held: Assignment) -> None:
    given_out = [each for partitions in held.values() for each in partitions]
    wanted = frozenset().union(*topics.values())
    assert sorted(given_out) == sorted(
        TopicPartition(topic, index)
        for topic, count in counts.items()
        if topic in wanted
        for index in range(count)
    )
    assert all(each.topic in topics[member] for member in held for each in held[member])
    assert held.keys() == topics.keys()


def check_even(topics: Topics, held: Assignment) -> None:
    for partitions in held.values():
        for taker in held:
            if len(held[taker]) + 2 <= len(partitions):
                assert not [each for each in partitions if each.topic in topics[taker]]


@pytest.mark.parametrize("name", list(ASSIGNORS))
@given(counts=counts_of_topics, topics=members_of_groups)
def test_every_partition_is_assigned_once_to_a_subscriber(
    name: str, counts: Counts, topics: Topics
) -> None:
    assignor = ASSIGNORS[name]()
    held = settled(assignor, counts, topics, {})
    check_valid(counts, topics, held)
    again = assignor.assign(counts, subscriptions(assignor, topics, held))
    assert {each: sorted(held[each]) for each in held} == {
        each: sorted(again[each]) for each in again
    }


@pytest.mark.parametrize("assignor", [StickyAssignor(), CooperativeStickyAssignor()])
@given(counts=counts_of_topics, before=members_of_groups, after=members_of_groups)
def test_sticky_groups_stay_even_when_members_come_and_go(
    assignor: Assignor, counts: Counts, before: Topics, after: Topics
) -> None:
    held = settled(assignor, counts, before, {})
    check_even(before, held)
    later = settled(assignor, counts, after, {each: held.get(each, []) for each in after})
    check_valid(counts, after, later)
    check_even(after, later)


@given(count=st.integers(1, 30), before=st.integers(1, 6), after=st.integers(1, 6))
def test_sticky_assignors_move_only_as_many_partitions_as_balance_needs(
    count: int, before: int, after: int
) -> None:
    assignor = StickyAssignor()
    old: Topics = {str(number): frozenset("t") for number in range(before)}
    new: Topics = {str(number): frozenset("t") for number in range(after)}
    held = settled(assignor, {"t": count}, old, {})
    later = assignor.assign({"t": count}, subscriptions(assignor, new, held))
    kept = sum(len(set(held.get(each, [])) & set(later[each])) for each in new)
    # An existing member keeps all its partitions up to the new share.
    most = -(-count // after)
    least = count // after
    full = count % after
    had = sorted((len(held.get(each, [])) for each in new), reverse=True)
    possible = sum(min(size, most if place < full else least) for place, size in enumerate(had))
    assert kept == possible
