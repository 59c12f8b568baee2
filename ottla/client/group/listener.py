"""Whom a consumer tells that partitions come and go. Edge: calls the user's functions."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kafkawire.ids import TopicPartition

OnPartitions = Callable[[Sequence[TopicPartition]], Awaitable[None] | None]
"""A function or a coroutine function of the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceListener:
    """The user's functions; each is optional.

    Kafka's order holds: what is taken away is told before what is added.
    """

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Tell what was added, also when that is nothing: a rebalance is over."""
        await _call(self.on_assigned, partitions)

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Tell what will be taken away; until this returns it can still be committed for."""
        if partitions:
            await _call(self.on_revoked, partitions)

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Tell what is gone already; without a function for that, the one for revoking is told."""
        if partitions:
            await _call(self.on_lost or self.on_revoked, partitions)


async def _call(function: OnPartitions | None, partitions: Sequence[TopicPartition]) -> None:
    if function is None:
        return
    result = function(list(partitions))
    if inspect.isawaitable(result):
        await result
