"""Requests to several brokers at the same time: `ottla.client.admin.admin_request`."""

import asyncio

import pytest

from kafkawire.errors import ErrorCode
from ottla.client.admin.admin_request import all_answers
from ottla.client.errors import BrokerError, broker_error


async def answer(number: int, turns: int, ended: list[int]) -> int:
    for _ in range(turns):
        await asyncio.sleep(0)
    ended.append(number)
    if number < 0:
        raise broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(number))
    return number


async def test_answers_have_the_order_of_the_requests() -> None:
    assert await all_answers(answer(each, 3 - each, []) for each in range(3)) == [0, 1, 2]


async def test_no_request_runs_on_after_an_error() -> None:
    ended: list[int] = []
    with pytest.raises(BrokerError, match="-1") as raised:
        await all_answers([answer(5, 9, ended), answer(-1, 0, ended), answer(-2, 3, ended)])
    assert ended == [-1, -2, 5]
    assert "-2" in raised.value.__notes__[0]


async def test_an_error_of_another_kind_is_raised_as_it_is() -> None:
    async def fail() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await all_answers([answer(5, 9, []), fail()])
