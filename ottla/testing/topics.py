"""Topics of one test (edge): names that no other test has, deleted when the test ends."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, Self

from ottla.testing.client_thread import ClientThread

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

MAX_PREFIX_CHARACTERS: Final = 60
SUFFIX_BYTES: Final = 4
DELETION_TIMEOUT_S: Final = 60.0
TOPICS_PER_DELETION: Final = 20
"""Deleting topics together takes the brokers less than half the time."""


class Topics:
    """Makes topics and names for a test. Use with `with`, or call `close`.

    with broker.topics("orders") as topics:
        orders = topics.create(partitions=3)
    """

    def __init__(self, owner: TopicOwner, name: str) -> None:
        """`name` is the beginning of all names, as far as Kafka allows its characters."""
        self.prefix = f"{legal_name(name)}-{secrets.token_hex(SUFFIX_BYTES)}"
        self._owner = owner
        self._count = 0
        self._names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def name(self, label: str | None = None) -> str:
        """Return a new name, with `label` in it, for a topic, group or transactional id.

        A topic that somebody creates under the name is deleted, too.
        """
        self._count += 1
        name = f"{self.prefix}-{self._count}{'' if label is None else '-' + legal_name(label)}"
        self._names.append(name)
        return name

    def create(
        self,
        label: str | None = None,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic, and return its name once every partition has a leader.

        Args:
            label: A part of the name, for readers of logs.
            partitions: Number of partitions.
            replication_factor: Number of replicas; by default the brokers' setting.
            configs: The topic's configs, such as `{"cleanup.policy": "compact"}`.

        Raises:
            OttlaError: the brokers refuse a number or config, or none can be reached.
        """
        name = self.name(label)
        self._owner.create_topic(name, partitions, replication_factor, configs or {})
        return name

    def close(self) -> None:
        """Give up the topics. Brokers delete them together with other tests' topics."""
        names, self._names = self._names, []
        self._owner.discard(names)


class TopicOwner:
    """Creates and deletes topics of a broker or a cluster, for any number of `Topics`."""

    def __init__(self, bootstrap: str, client: ClientThread) -> None:
        self._bootstrap = bootstrap
        self._client = client
        self._admin: Admin | None = None
        self._connecting = asyncio.Lock()
        self._discarded: list[str] = []
        self._deletion: Future[None] | None = None

    def create_topic(
        self, name: str, partitions: int, replicas: int | None, configs: Mapping[str, str]
    ) -> None:
        """Create a topic; return once every partition has a leader."""
        self._client.run(self._create(name, partitions, replicas, configs))

    async def _create(
        self, name: str, partitions: int, replicas: int | None, configs: Mapping[str, str]
    ) -> None:
        from ottla.client.admin_model import BROKER_DEFAULT, NewTopic

        admin = await self._connected()
        factor = BROKER_DEFAULT if replicas is None else replicas
        await admin.create_topics([NewTopic(name, partitions, factor, configs)])

    def discard(self, names: list[str]) -> None:
        """Delete topics, once there are enough for one request."""
        self._discarded += names
        if len(self._discarded) >= TOPICS_PER_DELETION:
            self.delete_discarded()

    def delete_discarded(self) -> None:
        """Begin to delete the discarded topics, after the previous deletion has ended."""
        self.wait()
        if self._discarded:
            names, self._discarded = self._discarded, []
            self._deletion = self._client.begin(self._delete(names))

    async def _delete(self, names: list[str]) -> None:
        from ottla.client.errors import OttlaError, UnknownTopicError

        # The broker under a test may be dead, or have never seen the topic: nothing is left then.
        with contextlib.suppress(UnknownTopicError, OttlaError):
            admin = await self._connected()
            await admin.delete_topics(names)

    def wait(self) -> None:
        """Wait for the deletion that is in progress."""
        deletion, self._deletion = self._deletion, None
        if deletion is not None:
            deletion.result(DELETION_TIMEOUT_S)

    def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            self._client.run(self._admin.close())
            self._admin = None

    async def _connected(self) -> Admin:
        from ottla.client.admin.admin import Admin

        # Tests may create topics in several threads.
        async with self._connecting:
            if self._admin is None:
                admin = Admin(self._bootstrap, client_id="ottla-testing")
                await admin.start()
                self._admin = admin
            return self._admin


class TopicService:
    """Topics of one broker or cluster, and the thread of its client; made at their first use."""

    def __init__(self, bootstrap: Callable[[], str]) -> None:
        self._bootstrap = bootstrap
        self._calls: ClientThread | None = None
        self._owner: TopicOwner | None = None

    @property
    def calls(self) -> ClientThread:
        """The thread."""
        if self._calls is None:
            self._calls = ClientThread()
        return self._calls

    def topics(self, name: str) -> Topics:
        """Return a maker of topics and names that nothing else uses."""
        if self._owner is None:
            self._owner = TopicOwner(self._bootstrap(), self.calls)
        return Topics(self._owner, name)

    def close(self, *, is_cleared: bool) -> None:
        """End the thread; with `is_cleared`, delete the topics that were given up before."""
        owner, self._owner = self._owner, None
        calls, self._calls = self._calls, None
        try:
            if owner is not None:
                if is_cleared:
                    owner.delete_discarded()
                    owner.wait()
                owner.close()
        finally:
            if calls is not None:
                calls.close()


def legal_name(text: str) -> str:
    """Return `text` as a part of a topic's name: other characters become `-`; long ones are cut."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:MAX_PREFIX_CHARACTERS].strip("-") or "topic"
