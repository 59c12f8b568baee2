"""Who creates topics and keeps their configs, as handlers see it.

Today that is `broker.local_topics`; with a cluster, the controller. An edge behind a protocol:
whatever a method does is in the metadata cache when it returns, and a failed disk is an ApiError.
The asynchronous ones give the loop back now and then, and run in the admin queue only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from broker.metadata_cache import TopicState
from broker.topic_plan import TopicPlan
from kafkawire.ids import BrokerId


class TopicSource(Protocol):
    """Creates, grows, configures and deletes topics; the caller has checked that it may."""

    async def create(self, plan: TopicPlan) -> TopicState:
        """Create a topic and return its state."""

    async def auto_create(self, name: str) -> None:
        """Create a topic as the broker's defaults say, unless it exists by now.

        Raises:
            ApiError: it must not be created.
        """

    async def add_partitions(self, name: str, assignments: Sequence[tuple[BrokerId, ...]]) -> None:
        """Add partitions, one per assignment, after the existing ones."""

    async def delete(self, name: str) -> None:
        """Delete a topic; its records are gone for clients when this returns."""

    def configs_of(self, name: str) -> Mapping[str, str]:
        """Return the configs that a topic sets itself."""

    def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace what a topic sets; its logs follow it when this returns."""
