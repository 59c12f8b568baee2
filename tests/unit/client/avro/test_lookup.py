"""Lookups are shared by the tasks of a loop, failures included, and hold up no other key."""

import asyncio

import pytest

from ottla.client.avro.lookup import Lookup


class Source:
    """Answers each call once it may; keeps the keys that were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.failure: Exception | None = None

    async def ask(self, key: str) -> int:
        self.asked.append(key)
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return len(key)


async def test_a_failure_is_the_failure_of_all_waiting_tasks() -> None:
    source, lookup = Source(), Lookup[str, int](10)
    source.failure = OSError("down")
    waiting = [asyncio.ensure_future(lookup.find("a", lambda: source.ask("a"))) for _ in range(3)]
    await asyncio.sleep(0)
    source.may_answer.set()
    for each in waiting:
        with pytest.raises(OSError, match="down"):
            await each
    assert source.asked == ["a"]
    source.failure = None
    assert await lookup.find("a", lambda: source.ask("a")) == 1
    assert lookup.get("a") == 1


async def test_a_key_waits_for_no_other_key() -> None:
    source, other, lookup = Source(), Source(), Lookup[str, int](10)
    waiting = asyncio.ensure_future(lookup.find("a", lambda: source.ask("a")))
    await asyncio.sleep(0)
    other.may_answer.set()
    assert await lookup.find("bb", lambda: other.ask("bb")) == 2
    source.may_answer.set()
    assert await waiting == 1


async def test_another_task_continues_for_one_that_was_cancelled() -> None:
    source, lookup = Source(), Lookup[str, int](10)
    first, *others = [
        asyncio.ensure_future(lookup.find("a", lambda: source.ask("a"))) for _ in range(3)
    ]
    await asyncio.sleep(0)
    first.cancel()
    source.may_answer.set()
    assert await asyncio.gather(*others) == [1, 1]
    assert first.cancelled()
    assert source.asked == ["a", "a"]


def test_each_event_loop_has_lookups_of_its_own() -> None:
    lookup = Lookup[str, int](10)

    async def find_together(key: str) -> list[int]:
        source = Source()
        source.may_answer.set()
        return await asyncio.gather(*(lookup.find(key, lambda: source.ask(key)) for _ in range(2)))

    assert asyncio.run(find_together("a")) == [1, 1]
    assert asyncio.run(find_together("bb")) == [2, 2]
