"""The coordinator's state of a cluster. Edge: a session of the test's own.

Brokers act on the znodes, so tests check these and not one broker's image.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar

from coordination.client import Client, SessionState
from coordination.errors import CoordinationError, NoNodeError
from kafkawire.ids import TopicPartition

T = TypeVar("T")

DEADLINE_S: Final = 30.0
LOOK_INTERVAL_S: Final = 0.02
REQUEST_TIMEOUT_S: Final = 2.0
INTERNAL: Final = "__"
"""Prefix of the names of internal topics."""


@dataclass(frozen=True, slots=True)
class State:
    """Leader, in-sync set and replicas of a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    controller_epoch: int
    """Epoch of the controller that wrote the state."""

    @property
    def is_whole(self) -> bool:
        """Whether the partition has a leader and all replicas are in sync."""
        return self.leader >= 0 and set(self.isr) == set(self.replicas)


class Observer:
    """Reads the nodes of a cluster. Use with `async with`.

    Reads are retried over failures of the coordinator.
    """

    def __init__(self, connect: str) -> None:
        self.client = Client(connect, session_timeout_ms=20_000)

    async def __aenter__(self) -> Self:
        await self.client.connect()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.client.close()

    async def brokers(self) -> set[int]:
        """Return the ids of the registered brokers."""
        return set(map(int, await self.client.get_children("/brokers/ids")))

    async def controller(self) -> int | None:
        """Return the id of the controller, None while there is none."""
        try:
            data, _stat = await self.client.get_data("/controller")
        except NoNodeError:
            return None
        return int(json.loads(data or b"{}")["brokerid"])

    async def partitions(self, *, internal: bool = False) -> Mapping[TopicPartition, State]:
        """Return all partitions; internal topics only with `internal`."""
        found: dict[TopicPartition, State] = {}
        for topic in await self.client.get_children("/brokers/topics"):
            if topic.startswith(INTERNAL) and not internal:
                continue
            data, _stat = await self.client.get_data(f"/brokers/topics/{topic}")
            for number, replicas in json.loads(data or b"{}")["partitions"].items():
                where = TopicPartition(topic, int(number))
                found[where] = await self.state(where, tuple(replicas))
        return found

    async def state(self, where: TopicPartition, replicas: tuple[int, ...] = ()) -> State:
        """Return the state in the partition's own node; leader -1 if there is none."""
        path = f"/brokers/topics/{where.topic}/partitions/{where.partition}/state"
        try:
            data, _stat = await self.client.get_data(path)
        except NoNodeError:
            return State(-1, -1, (), replicas, -1)
        fields = json.loads(data or b"{}")
        return State(
            fields["leader"],
            fields["leader_epoch"],
            tuple(fields["isr"]),
            replicas,
            fields["controller_epoch"],
        )

    async def wait_for_controller(self) -> int:
        """Wait for a controller, and return it."""
        found = await self.wait_for(self.controller, lambda it: it is not None)
        assert found is not None
        return found

    async def wait_until_whole(self, broker_count: int, timeout_s: float = DEADLINE_S) -> None:
        """Wait until all brokers are registered, all partitions led, and all replicas in sync."""
        await self.wait_for(self.brokers, lambda found: len(found) == broker_count, timeout_s)
        await self.wait_for_controller()
        await self.wait_for(
            lambda: self.partitions(internal=True),
            lambda found: all(each.is_whole for each in found.values()),
            timeout_s,
        )

    async def _reconnect(self) -> None:
        """Begin another session if this one has expired: no test depends on it."""
        if self.client.state in (SessionState.EXPIRED, SessionState.CLOSED):
            with contextlib.suppress(CoordinationError):
                await self.client.connect(REQUEST_TIMEOUT_S)

    async def wait_for(
        self,
        look: Callable[[], Awaitable[T]],
        is_good: Callable[[T], bool],
        timeout_s: float = DEADLINE_S,
    ) -> T:
        """Return the result of `look` as soon as `is_good` accepts it.

        Raises:
            AssertionError: the timeout has expired; the message contains the last result.
        """
        deadline_s = time.monotonic() + timeout_s
        found: object = "nothing"
        while time.monotonic() < deadline_s:
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    found = await look()
                if is_good(found):
                    return found
            except (CoordinationError, TimeoutError) as error:
                # Some tests stop the coordinator, so it may be down now.
                found = error
                await self._reconnect()
            await asyncio.sleep(LOOK_INTERVAL_S)
        raise AssertionError(f"condition not met within {timeout_s} s, last result: {found}")
