"""Checks a produced batch against the rules of its topic's config (decision).

Of one config, and never changed, so that a thread may go by them while the loop adopts others.
"""

from __future__ import annotations

from typing import Final

from broker.replication.recompression import recompress, target_codec
from kafkawire.compression import Codec
from kafkawire.records import BatchHeader, Budget, BudgetSpentError, validator
from storage.config import LogConfig

# Compressing more than this again may take longer than a turn of the loop should.
QUICK_RECOMPRESSION_BYTES: Final = 16 * 1024
# Compressing takes many times as long as decompressing, at the highest levels a hundred times.
RECOMPRESSION_COST: Final = 16


class BatchRules:
    """Validates batches, and stores them in the codec that the topic wants."""

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
        """Checks a batch; `keeps_codec` says whether it is appended as it is."""
        self.keeps_codec = self._codec is None

    def prepare(
        self, batch: memoryview, now_ms: int, budget: Budget | None = None
    ) -> tuple[memoryview, BatchHeader]:
        """Return what is to be appended in place of `batch`, and its header.

        Any thread may call this. It may write the header's timestamp.

        Raises:
            ApiError: the batch is refused.
            BudgetSpentError: it expands beyond what is left of `budget`.
        """
        header = self.validate(batch, now_ms, budget)
        return self._in_its_codec(batch, header)

    def prepare_soon(
        self, batch: memoryview, now_ms: int, budget: Budget
    ) -> tuple[memoryview, BatchHeader]:
        """Do as `prepare`, if `budget` is also enough to compress the batch again.

        Raises:
            ApiError, BudgetSpentError: as there.
        """
        header = self.validate(batch, now_ms, budget)
        codec = self._codec
        if codec is not None and header.codec is not codec:
            cost_bytes = len(batch) * RECOMPRESSION_COST
            is_quick = header.codec is Codec.NONE and len(batch) <= QUICK_RECOMPRESSION_BYTES
            if not is_quick or cost_bytes > budget.left_bytes:
                raise BudgetSpentError
            budget.left_bytes -= cost_bytes
        return self._in_its_codec(batch, header)

    def _in_its_codec(
        self, batch: memoryview, header: BatchHeader
    ) -> tuple[memoryview, BatchHeader]:
        codec = self._codec
        if codec is None or header.codec is codec:
            return batch, header
        return recompress(batch, codec, self._config)
