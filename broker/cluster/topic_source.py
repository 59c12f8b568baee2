"""Creation, growth and deletion of topics, as handlers see it: `broker.cluster.topics`.

An edge behind a protocol. When a method returns, the request is stored in the coordinator. Its
result appears in the metadata cache after the controller has carried it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.cluster.topic_plan import TopicPlan, TopicSpec
from kafkawire.ids import TopicId


class TopicSource(Protocol):
    """Requests changes of topics.

    Every method raises an ApiError on failure. REQUEST_TIMED_OUT means that the result is unknown.
    """

    def plan(self, spec: TopicSpec) -> TopicPlan:
        """Return the topic that `spec` would create; requests nothing."""

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
        """Add partitions up to `partition_count`, on the `chosen` brokers; return the new count."""

    async def delete(self, name: str) -> None:
        """Delete a topic."""
