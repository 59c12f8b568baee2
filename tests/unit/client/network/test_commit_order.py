"""Overlapping commits to one group: `ottla.client.network.commit_order`."""

from kafkawire.ids import Offset
from ottla.client.network.commit_order import CommitOrder
from ottla.client.offset import CommittedOffset
from tests.unit.client.client_fakes import T0, T1

AT_1, AT_2, AT_3 = (CommittedOffset(Offset(offset)) for offset in (1, 2, 3))


def test_offset_of_a_later_call_is_not_replaced() -> None:
    order = CommitOrder()
    with order.call({T0: AT_1, T1: AT_1}) as first, order.call({T0: AT_2}) as second:
        second.on_stored([T0])
        assert first.left == {T1: AT_1}
        assert second.left == {T0: AT_2}
        first.on_stored([T0])
        assert first.left == {T1: AT_1}, "a late response to the first call"
        assert second.left == {T0: AT_2}


def test_call_is_followed_until_the_later_ones_have_ended() -> None:
    order = CommitOrder()
    with order.call({T0: AT_1}) as first, order.call({T1: AT_1}) as other:
        with order.call({T0: AT_2}) as second:
            with order.call({T0: AT_3}) as third:
                assert first.is_followed()
                assert not other.is_followed()
                assert second.is_followed()
                assert not third.is_followed()
            assert first.is_followed()
            assert not second.is_followed()
        assert not first.is_followed()


def test_call_that_was_replaced_is_not_followed() -> None:
    order = CommitOrder()
    with order.call({T0: AT_1}) as first, order.call({T0: AT_2}), order.call({T0: AT_3}) as third:
        third.on_stored([T0])
        assert first.left == {}
        assert not first.is_followed()


def test_next_call_is_compared_with_none_that_ended_before() -> None:
    order = CommitOrder()
    with order.call({T0: AT_1}) as first:
        first.on_stored([T0])
    with order.call({T0: AT_2}) as second:
        assert second.left == {T0: AT_2}
