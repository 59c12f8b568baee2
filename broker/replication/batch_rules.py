"""Checks a produced batch against the rules of its topic's config (decision).

An object belongs to one config and never changes, so a thread may use it while the event loop
adopts another config.
"""

from __future__ import annotations

from typing import Final

from broker.replication.recompression import recompress, target_codec
from kafkawire.compression import Codec
from kafkawire.records import BatchHeader, Budget, BudgetSpentError, validator
from storage.config.log_config import LogConfig

# Recompressing a larger batch could block the event loop for too long.
QUICK_RECOMPRESSION_BYTES: Final = 16 * 1024
# Compression is many times slower than decompression, a hundred times at the highest levels.
RECOMPRESSION_COST: Final = 16


class BatchRules:
    """Validates batches, and recompresses them in the topic's codec."""

    __slots__ = ("_codec", "_config", "keeps_codec", "validate")

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._codec = target_codec(config)
        self.validate = validator(
            compacted=config.is_compacted,
            max_batch_bytes=config.max_message_bytes,
            timestamp_type=config.message_timestamp_type,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        )
        """Checks a batch. With `keeps_codec`, the batch is then appended unchanged."""
        self.keeps_codec = self._codec is None

    def prepare(
        self, batch: memoryview, now_ms: int, budget: Budget | None = None
    ) -> tuple[memoryview, BatchHeader]:
        """Return the batch to append in place of `batch`, and its header.

        Any thread may call this. It may write the header's timestamp.

        Raises:
            ApiError: the batch is refused.
            BudgetSpentError: the batch expands beyond the rest of `budget`.
        """
        header = self.validate(batch, now_ms, budget)
        return self._recompressed(batch, header)

    def prepare_soon(
        self, batch: memoryview, now_ms: int, budget: Budget
    ) -> tuple[memoryview, BatchHeader]:
        """As `prepare`, but only if `budget` also covers the cost of recompression.

        Raises:
            ApiError, BudgetSpentError: as `prepare`.
        """
        header = self.validate(batch, now_ms, budget)
        codec = self._codec
        if codec is not None and header.codec is not codec:
            cost_bytes = len(batch) * RECOMPRESSION_COST
            is_quick = header.codec is Codec.NONE and len(batch) <= QUICK_RECOMPRESSION_BYTES
            if not is_quick or cost_bytes > budget.left_bytes:
                raise BudgetSpentError
            budget.left_bytes -= cost_bytes
        return self._recompressed(batch, header)

    def _recompressed(
        self, batch: memoryview, header: BatchHeader
    ) -> tuple[memoryview, BatchHeader]:
        codec = self._codec
        if codec is None or header.codec is codec:
            return batch, header
        return recompress(batch, codec, self._config)
