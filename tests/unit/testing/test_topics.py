"""Topics of tests, which any thread may create: `ottla.testing.topics`."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from ottla.client.admin.admin import Admin
from ottla.client.errors import NoBrokerAvailableError
from ottla.testing.client_thread import ClientThread
from ottla.testing.topics import TopicOwner

CONCURRENT = 3


async def test_topics_that_are_created_at_the_same_time_share_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Admin] = []
    created: list[Admin] = []

    async def start(admin: Admin) -> None:
        started.append(admin)
        # The other creations begin meanwhile.
        await asyncio.sleep(0)

    async def create(admin: Admin, _topics: Sequence[object]) -> None:
        created.append(admin)

    monkeypatch.setattr(Admin, "start", start)
    monkeypatch.setattr(Admin, "create_topics", create)
    # The thread would only run the creations, which this test does itself.
    owner = TopicOwner("127.0.0.1:1", cast(ClientThread, None))
    await asyncio.gather(*(owner._create("t", 1, None, {}) for _ in range(CONCURRENT)))
    assert created == started * CONCURRENT


async def test_a_deletion_at_a_dead_broker_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[Admin] = []

    async def start(admin: Admin) -> None:
        attempts.append(admin)
        raise NoBrokerAvailableError("the broker is dead")

    monkeypatch.setattr(Admin, "start", start)
    owner = TopicOwner("127.0.0.1:1", cast(ClientThread, None))
    await owner._delete(["a name that no client has used"])
    assert len(attempts) == 1
