"""Overlapping commits to one group: `ottla.client.network.commit_order`."""

from ottla.client.network.commit_order import CommitOrder
from tests.unit.client.client_fakes import T0, T1


def test_offset_of_a_later_call_is_not_replaced() -> None:
    order = CommitOrder()
    first, second = order.begin([T0, T1]), order.begin([T0])
    order.on_stored(second, [T0])
    assert order.left(first, [T0, T1]) == [T1]
    assert order.left(second, [T0]) == [T0]
    order.on_stored(first, [T0])
    assert order.left(first, [T0, T1]) == [T1], "a late response to the first call"


def test_call_is_followed_until_the_later_ones_have_ended() -> None:
    order = CommitOrder()
    first, second, third = order.begin([T0, T1]), order.begin([T0]), order.begin([T0])
    assert order.is_followed(first, [T0, T1])
    assert not order.is_followed(first, [T1])
    assert order.is_followed(second, [T0])
    assert not order.is_followed(third, [T0])
    order.end(third, [T0])
    assert not order.is_followed(second, [T0])
    order.end(second, [T0])
    assert not order.is_followed(first, [T0, T1])


def test_next_call_is_compared_with_none_that_ended_before() -> None:
    order = CommitOrder()
    first = order.begin([T0])
    order.on_stored(first, [T0])
    order.end(first, [T0])
    assert order.left(order.begin([T0]), [T0]) == [T0]
