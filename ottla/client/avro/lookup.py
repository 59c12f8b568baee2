"""Answers of a registry: remembered, and looked up once for all tasks that wait (edge).

Tasks of several event loops may use one object; the tasks of each loop share their lookups.
Invariant: a task waits for one lookup of its key, and for none of another key.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from ottla.client.avro.memory import Memory

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lookup(Generic[K, V]):
    """Values by key; the least recently used one is forgotten if there are too many."""

    def __init__(self, max_count: int) -> None:
        self._known: Memory[K, V] = Memory(max_count)
        self._underway: dict[tuple[asyncio.AbstractEventLoop, K], asyncio.Future[V]] = {}

    def get(self, key: K) -> V | None:
        """Return the value of `key`, None if it has to be looked up."""
        return self._known.get(key)

    async def find(self, key: K, look_up: Callable[[], Awaitable[V]]) -> V:
        """Return the value of `key`, by `look_up` if it is not known.

        Raises:
            Exception: as `look_up` does, also if another task called it.
        """
        place = asyncio.get_running_loop(), key
        while (underway := self._underway.get(place)) is not None:
            # Not `await underway`: cancelling this task must not end the wait of others.
            await asyncio.wait([underway])
            if not underway.cancelled():
                return underway.result()
        value = self._known.get(key)
        return await self._looked_up(place, look_up) if value is None else value

    async def _looked_up(
        self, place: tuple[asyncio.AbstractEventLoop, K], look_up: Callable[[], Awaitable[V]]
    ) -> V:
        loop, key = place
        self._underway[place] = underway = loop.create_future()
        try:
            value = await look_up()
        except Exception as error:
            underway.set_exception(error)
            # If no other task waits, nothing else would retrieve it.
            underway.exception()
            raise
        else:
            self._known.put(key, value)
            underway.set_result(value)
            return value
        finally:
            # One of the waiting tasks looks it up instead if this one was cancelled.
            underway.cancel()
            del self._underway[place]
