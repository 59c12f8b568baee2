"""Responses are sent in request order."""

from __future__ import annotations

import itertools

import pytest

from broker.network.reply import Reply
from broker.network.response_queue import ResponseQueue
from tests.unit.broker.network_fakes import make_request


def queue_of(*replies: Reply) -> ResponseQueue:
    queue = ResponseQueue()
    for number, reply in enumerate(replies):
        request = make_request(None, number)
        request.reply = reply
        queue.append(request)
    return queue


def taken(queue: ResponseQueue) -> list[int]:
    return [request.header.correlation_id for request in iter(queue.take_done, None)]


def test_an_empty_queue_has_no_response_and_owes_none() -> None:
    queue = ResponseQueue()
    assert queue.take_done() is None
    assert not queue.is_owed


def test_a_request_that_was_not_handled_is_owed() -> None:
    queue = ResponseQueue([make_request(None)])
    assert queue.take_done() is None
    assert queue.is_owed


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_responses_are_in_request_order_for_any_order_of_completion(order: list[int]) -> None:
    replies = [Reply() for _ in range(4)]
    queue = queue_of(*replies)
    left: list[int] = []
    for number in order:
        replies[number].complete("message")
        left += taken(queue)
        complete = [reply.is_done for reply in replies]
        assert left == list(range([*complete, False].index(False)))
    assert left == [0, 1, 2, 3]


def test_a_request_without_response_keeps_its_place() -> None:
    queue = queue_of(Reply(), Reply.none(), Reply("message"))
    assert taken(queue) == []
    queue[0].reply.complete("message")
    assert taken(queue) == [0, 1, 2]
    assert not queue.is_owed
