"""The first answer of several brokers: `ottla.client.network.first_answer`."""

import asyncio

import pytest

from ottla.client.errors import (
    AuthenticationFailedError,
    ConnectionLostError,
    NoBrokerAvailableError,
    OttlaError,
)
from ottla.client.network.first_answer import first_answer
from tests.waiting import until

LONG_S = 3600.0
SHORT_S = 0.001


class Broker:
    """Answers as scripted, and records its fate; without an answer it stays silent."""

    def __init__(self, answer: str | Exception | None = None) -> None:
        self.answer = answer
        self.was_asked = False
        self.was_cancelled = False

    async def __call__(self) -> str:
        self.was_asked = True
        try:
            if self.answer is None:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


async def ask(*brokers: Broker, head_start_s: float = LONG_S) -> str:
    return await first_answer(brokers, is_lost, head_start_s)


def is_lost(error: OttlaError) -> bool:
    return isinstance(error, ConnectionLostError)


async def test_one_broker_is_asked_if_it_answers() -> None:
    second = Broker("b")
    assert await ask(Broker("a"), second) == "a"
    assert not second.was_asked


async def test_the_next_broker_is_asked_at_once_after_a_failure() -> None:
    assert await ask(Broker(ConnectionLostError("1")), Broker("b"), Broker("c")) == "b"


async def test_a_silent_broker_loses_to_the_next_one_and_is_cancelled() -> None:
    silent, last = Broker(), Broker("c")
    assert await ask(silent, Broker("b"), last, head_start_s=SHORT_S) == "b"
    assert silent.was_cancelled
    assert not last.was_asked


async def test_any_number_of_brokers_may_be_silent() -> None:
    silent = [Broker() for _ in range(3)]
    assert await ask(*silent, Broker("d"), head_start_s=SHORT_S) == "d"
    assert all(broker.was_cancelled for broker in silent)


async def test_an_error_that_concerns_all_brokers_ends_the_search() -> None:
    silent, last = Broker(), Broker("c")
    refusing = Broker(AuthenticationFailedError("wrong password"))
    with pytest.raises(AuthenticationFailedError, match="wrong password"):
        await ask(silent, refusing, last, head_start_s=SHORT_S)
    assert silent.was_cancelled
    assert not last.was_asked


async def test_an_answer_counts_more_than_an_error_of_the_same_moment() -> None:
    gate = asyncio.Event()

    async def late_error() -> str:
        await gate.wait()
        raise AuthenticationFailedError("late")

    async def late_answer() -> str:
        gate.set()
        return "b"

    assert await first_answer([late_error, late_answer], is_lost, SHORT_S) == "b"


async def test_reasons_are_given_once_each_if_all_fail() -> None:
    lost = [Broker(ConnectionLostError(text)) for text in ("x", "y", "x")]
    with pytest.raises(NoBrokerAvailableError, match=r"reached: x; y$"):
        await ask(*lost)


async def test_a_cancelled_caller_leaves_no_attempt_behind() -> None:
    silent = Broker()
    caller = asyncio.ensure_future(ask(silent))
    await until(lambda: silent.was_asked)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert silent.was_cancelled
