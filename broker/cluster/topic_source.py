"""Who creates, grows and deletes topics, as handlers see it: `broker.cluster.topics`.

An edge behind a protocol. What a method has asked for is in the coordinator when it returns, and
reaches the metadata cache when the controller has done it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.cluster.topic_plan import TopicPlan, TopicWish
from kafkawire.ids import TopicId


class TopicSource(Protocol):
    """Asks for changes of topics.

    Every method raises an ApiError when it cannot: REQUEST_TIMED_OUT says that nobody knows whether
    it was done.
    """

    def plan(self, wish: TopicWish) -> TopicPlan:
        """Return how the topic of `wish` will look; asks for nothing."""

    async def create(self, plan: TopicPlan) -> TopicId:
        """Create a topic and return its id."""

    async def add_partitions(
        self,
        name: str,
        partition_count: int,
        chosen: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool,
    ) -> int:
        """Let a topic have so many partitions, on the `chosen` brokers; return how many it has."""

    async def delete(self, name: str) -> None:
        """Delete a topic."""
