"""Sends admin requests and retries the failures that allow it (edge).

A change is retried only when it certainly was not made: there was no connection, or the broker
responded that it is not the controller, or not the coordinator of the group.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from ottla.client.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConnectionLostError,
    NoBrokerAvailableError,
    OttlaError,
    RequestTimedOutError,
    broker_error,
    no_result,
)
from ottla.client.network.cluster import Cluster
from ottla.client.retry import retry

T = TypeVar("T")

Result: TypeAlias = tuple[str, int, str | None]
"""The subject of a part of a request, with its error code and text in the response."""

_ELSEWHERE: Final = {
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""Codes of a broker that has made no change, because it is not or not yet in charge."""


async def read(cluster: Cluster, attempt: Callable[[], Awaitable[T]], timeout_s: float) -> T:
    """Run a request that changes nothing; retry while a connection or an election fails it."""
    return await _retry(cluster, attempt, timeout_s, _passes)


async def change(cluster: Cluster, attempt: Callable[[], Awaitable[T]], timeout_s: float) -> T:
    """Run a request that makes a change; retry while the change certainly was not made."""
    return await _retry(cluster, attempt, timeout_s, is_certainly_undone)


async def change_parts(
    parts: Iterable[list[T]], change_some: Callable[[list[T]], Awaitable[None]]
) -> None:
    """Make a change by a request for each of its parts, one after the other.

    Raises:
        OttlaError: the first refusal, with the others as notes; the rest was changed. Or a request
            has failed in another way, and the parts after it were not changed.
    """
    refusals: list[BrokerError] = []
    # Without anything to change the broker gets an empty request, and may refuse it.
    for part in list(parts) or [[]]:
        try:
            await change_some(part)
        except BrokerError as error:
            refusals.append(error)
        except OttlaError as error:
            for refusal in refusals:
                error.add_note(str(refusal))
            raise
    raise_first(refusals)


async def ask_all(
    cluster: Cluster, ask: Callable[[BrokerId], Awaitable[Sequence[T]]], timeout_s: float
) -> list[T]:
    """Return the rows of all brokers; retry, without the brokers that have left the cluster."""

    async def attempt() -> list[T]:
        brokers = list((await cluster.refresh()).brokers)
        answers = await all_answers(map(ask, brokers))
        return [row for rows in answers for row in rows]

    return await retry(attempt, cluster.backoff, timeout_s)


async def all_answers(requests: Iterable[Awaitable[T]]) -> list[T]:
    """Return the answers to requests that run at the same time; none runs on after an error."""
    answers = await asyncio.gather(*requests, return_exceptions=True)
    raise_first(answer for answer in answers if isinstance(answer, OttlaError))
    found: list[T] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        found.append(answer)
    return found


def raise_refused(wanted: Iterable[str], results: Iterable[Result]) -> None:
    """Raise the first error of `results`, with the others as notes.

    A subject in `wanted` without a result is an error, too: it may or may not have been changed.
    """
    found = list(results)
    missing = dict.fromkeys(wanted)
    for subject, _code, _detail in found:
        missing.pop(subject, None)
    raise_first(
        [*(error_or_none(code, it, detail) for it, code, detail in found), *map(no_result, missing)]
    )


def raise_first(errors: Iterable[OttlaError | None]) -> None:
    """Raise the first error, if there is one, with the others as notes."""
    # Without repetition: one failed request is the error of many partitions.
    found = list(dict.fromkeys(error for error in errors if error is not None))
    if found:
        for other in found[1:]:
            for note in (str(other), *getattr(other, "__notes__", ())):
                found[0].add_note(note)
        raise found[0]


def error_or_none(code: int, subject: str, detail: str | None = None) -> BrokerError | None:
    """Return the typed error for a wire `code`, None for NONE."""
    return None if code == ErrorCode.NONE else broker_error(code, subject, detail)


async def _retry(
    cluster: Cluster,
    attempt: Callable[[], Awaitable[T]],
    timeout_s: float,
    may_pass: Callable[[OttlaError], bool],
) -> T:
    async def refreshing() -> T:
        try:
            return await attempt()
        except OttlaError as error:
            if may_pass(error):
                cluster.request_refresh()
            raise

    return await retry(refreshing, cluster.backoff, timeout_s, may_pass)


def is_certainly_undone(error: OttlaError) -> bool:
    """Whether a change was certainly not made, and may be made after a back-off."""
    if isinstance(error, BrokerError):
        return error.code in _ELSEWHERE
    return isinstance(error, BrokerUnreachableError | NoBrokerAvailableError)


def _passes(error: OttlaError) -> bool:
    # Narrower than the protocol's "retriable", which includes a topic that does not exist.
    if isinstance(error, BrokerError):
        return error.code in (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_CONTROLLER)
    return isinstance(error, ConnectionLostError | RequestTimedOutError)
