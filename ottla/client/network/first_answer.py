"""Tries several brokers for one answer, a further one while the ones before stay silent (edge).

Invariant: when the call ends, none of its attempts is running.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from ottla.client.errors import NoBrokerAvailableError, OttlaError

T = TypeVar("T")

Attempt: TypeAlias = Callable[[], Coroutine[Any, Any, T]]

HEAD_START_S: Final = 0.5
"""Time that the first broker has for its answer before a second one is tried beside it.

It doubles with each further broker, so that clients of a cluster that is slow throughout do not
multiply its load.
"""


async def first_answer(
    attempts: Sequence[Attempt[T]],
    may_try_next: Callable[[OttlaError], bool],
    head_start_s: float = HEAD_START_S,
) -> T:
    """Return the answer of the first attempt that succeeds; the others are cancelled.

    The next attempt starts once one before it has failed, or none has answered for the head start.

    Raises:
        NoBrokerAvailableError: every attempt failed.
        OttlaError: the error of an attempt after which `may_try_next` is false.
    """
    left = list(reversed(attempts))
    running: list[asyncio.Task[T]] = []
    failures: list[str] = []
    try:
        while left or running:
            if left:
                running.append(asyncio.ensure_future(left.pop()()))
            await asyncio.wait(
                running,
                timeout=head_start_s if left else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            head_start_s *= 2
            ended = [task for task in running if task.done()]
            running = [task for task in running if not task.done()]
            errors = [task.exception() for task in ended]
            for task, error in zip(ended, errors, strict=True):
                if error is None:
                    return task.result()
            for error in errors:
                if not isinstance(error, OttlaError) or not may_try_next(error):
                    assert error is not None
                    raise error
                failures.append(str(error))
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    reasons = "; ".join(dict.fromkeys(failures))
    raise NoBrokerAvailableError(f"no broker could be reached: {reasons}")
