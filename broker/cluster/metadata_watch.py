"""Waiting for a condition on the cluster image (edge).

Invariant: every wait ends, when its condition holds or its timeout expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from broker.cluster.metadata_cache import ClusterImage, MetadataCache

LONGEST_WAIT_MS: Final = 24 * 3_600_000
"""Longest timer: event loops cannot represent every timeout that clients may request."""

T = TypeVar("T")
Condition = Callable[[ClusterImage], bool]


class MetadataWatch:
    """Wakes waiting tasks when the metadata cache meets their conditions."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._waiting: dict[asyncio.Future[None], Condition] = {}
        self._is_closed = False
        metadata.on_change(self._check)

    @property
    def image(self) -> ClusterImage:
        """Current image."""
        return self._metadata.image

    async def wait_for(self, condition: Condition, timeout_ms: float) -> bool:
        """Return whether `condition` holds within `timeout_ms`."""
        if condition(self._metadata.image) or self._is_closed:
            return condition(self._metadata.image)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = condition
        try:
            async with asyncio.timeout(min(timeout_ms, LONGEST_WAIT_MS) / 1000):
                await future
        except TimeoutError:
            pass
        finally:
            self._waiting.pop(future, None)
        # Not simply True: the wait may have been closed.
        return condition(self._metadata.image)

    async def wait_for_each(
        self, items: Collection[T], is_met: Callable[[ClusterImage, T], bool], timeout_ms: float
    ) -> list[T]:
        """Wait until `is_met` holds for every item; return the late ones after `timeout_ms`."""
        await self.wait_for(lambda image: all(is_met(image, each) for each in items), timeout_ms)
        return [each for each in items if not is_met(self.image, each)]

    def close(self) -> None:
        """End every wait now, and later ones at once."""
        self._is_closed = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def _check(self) -> None:
        image = self._metadata.image
        for future, condition in list(self._waiting.items()):
            if not future.done() and condition(image):
                future.set_result(None)


def has_leaders(image: ClusterImage, topic: str, partition_count: int) -> bool:
    """Whether the first `partition_count` partitions of a topic all have a leader."""
    state = image.topics.get(topic)
    if state is None or len(state.partitions) < partition_count:
        return False
    found = (state.partitions.get(index) for index in range(partition_count))
    return all(
        partition is not None and partition.leader_and_isr.leader >= 0 for partition in found
    )
