"""Calls the application when partitions are assigned or revoked (edge)."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kafkawire.ids import TopicPartition
from ottla.client.background import is_cancellation

OnPartitions = Callable[[Sequence[TopicPartition]], Awaitable[None] | None]
"""A plain or async callback of the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceListener:
    """The callbacks of the user; each is optional.

    As in Kafka, revoked partitions are reported before assigned ones.
    """

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Report the added partitions after a rebalance, even if there are none."""
        await _call(self.on_assigned, partitions)

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Report partitions about to be revoked; the callback may still commit for them."""
        if partitions:
            await _call(self.on_revoked, partitions)

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Report partitions that are already lost, with `on_revoked` if there is no `on_lost`."""
        if partitions:
            await _call(self.on_lost or self.on_revoked, partitions)


async def _call(function: OnPartitions | None, partitions: Sequence[TopicPartition]) -> None:
    if function is None:
        return
    try:
        result = function(list(partitions))
        if inspect.isawaitable(result):
            await result
    except asyncio.CancelledError as error:
        if is_cancellation(error):
            raise
        # Otherwise the rebalance would end as if it was cancelled, without an error for the reader.
        raise RuntimeError("CancelledError in a callback that was not cancelled") from error
