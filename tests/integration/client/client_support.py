"""Shared parts of the client tests: quick retries, short timeouts and leak checks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypedDict

from ottla import Producer
from tests.integration.client.fake_broker import FakeCluster
from tests.waiting import until


class Backoff(TypedDict):
    """Settings that make retries quick."""

    retry_backoff_ms: int
    retry_backoff_max_ms: int


FAST: Backoff = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}


def other_tasks() -> set[asyncio.Task[Any]]:
    """Return all tasks except for the current one."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


@asynccontextmanager
async def no_leak(cluster: FakeCluster) -> AsyncIterator[None]:
    """Check that the block leaves no task and no connection behind."""
    tasks_before = other_tasks()
    yield
    own = {task for task in other_tasks() - tasks_before if not _is_served(task)}
    assert not own, f"left behind: {own}"
    await until(
        lambda: all(broker.connection_count == 0 for broker in cluster.brokers.values()),
        "the connections to be closed",
    )


def _is_served(task: asyncio.Task[Any]) -> bool:
    return "FakeBroker" in repr(task.get_coro())


async def cancel_after(work: Coroutine[Any, Any, Any], steps: int) -> bool:
    """Cancel `work` after `steps` turns of the event loop; return whether it was cancelled."""
    task = asyncio.ensure_future(work)
    for _ in range(steps):
        await asyncio.sleep(0)
        if task.done():
            break
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


def raising_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, whose first call has an error as no broker can cause it."""
    errors = [RuntimeError("a defect")]

    def call(*arguments: Any, **named: Any) -> Any:
        if errors:
            raise errors.pop()
        return function(*arguments, **named)

    return call


@contextmanager
def delivery_timeout(producer: Producer, timeout_s: float) -> Iterator[None]:
    """Let all batches expire so soon after their creation, also the existing ones.

    The setting would also count the time until a batch is sent, which a busy machine prolongs.
    """
    accumulator = producer._accumulator
    before_s, accumulator._delivery_timeout_s = accumulator._delivery_timeout_s, timeout_s
    producer._sender.wake()
    try:
        yield
    finally:
        accumulator._delivery_timeout_s = before_s
