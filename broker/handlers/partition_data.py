"""The part of a Fetch response for one partition, for consumers and followers (decision)."""

from __future__ import annotations

from typing import Final

from broker.replication.replica import ReadResult
from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import EpochEndOffset, PartitionData

NO_RECORDS: Final = b""


def read_partition(index: int, result: ReadResult, high_watermark: int) -> PartitionData:
    """Return the result of a read, which may be a divergence; without aborted transactions."""
    data = PartitionData(
        partition_index=index,
        high_watermark=high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=None,
        records=NO_RECORDS if result.records is None else result.records,
    )
    if result.diverging is not None:
        data.diverging_epoch = EpochEndOffset(
            epoch=result.diverging.epoch, end_offset=result.diverging.end_offset
        )
    return data


def failed_partition(index: int, code: ErrorCode) -> PartitionData:
    """Return the failure of a read."""
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=None,
        records=NO_RECORDS,
    )
