"""One run of retention over all logs (edge).

It runs in the event loop, as only the owner of a log may remove segments from it, in steps that are
short enough for the broker to serve requests meanwhile. Compacted topics are left to the cleaner,
which also applies the deletion part of `compact,delete`. Source: Kafka's `LogManager.cleanupLogs`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from kafkawire.ids import Offset, TopicPartition
from storage.directory.logs import Logs
from storage.errors import StorageError
from storage.log.log import Log
from storage.log.retention_deletion import delete_expired

SEGMENTS_PER_TURN: Final = 16
"""Limit per turn of the event loop: 3 renames each, 30 us together, stay below a millisecond."""

log = structlog.get_logger(__name__)


async def delete_expired_logs(
    logs: Logs,
    high_watermark_of: Callable[[TopicPartition], Offset | None],
    now_ms: Callable[[], int],
    *,
    of_compacted: bool = False,
) -> None:
    """Delete expired segments; a failure of one log does not stop the others.

    A partition that this broker does not serve has no high watermark, and is skipped. With
    `of_compacted` the run covers compacted topics, otherwise all others.
    """
    deleted_count = 0
    for each in logs:
        if each.config.is_compacted is not of_compacted:
            continue
        deleted_count += await _delete_expired(each, high_watermark_of, now_ms)
        # Otherwise the files of every segment that was ever read would stay open.
        each.upkeep.release_closed()
        await asyncio.sleep(0)
    log.debug("retention.ended", segment_count=deleted_count)


async def _delete_expired(
    each: Log,
    high_watermark_of: Callable[[TopicPartition], Offset | None],
    now_ms: Callable[[], int],
) -> int:
    total = 0
    while each.health.failure is None and not each.is_closed:
        # Read again each time: the partition may have been removed or truncated.
        high_watermark = high_watermark_of(each.topic_partition)
        if high_watermark is None:
            break
        try:
            count = delete_expired(each, high_watermark, now_ms(), SEGMENTS_PER_TURN)
        except StorageError as error:
            log.error("retention.failed", partition=str(each.topic_partition), error=str(error))
            break
        total += count
        if count < SEGMENTS_PER_TURN:
            break
        await asyncio.sleep(0)
    return total
