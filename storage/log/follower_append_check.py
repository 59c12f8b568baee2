"""Checks of a follower before it appends replicated batches (decision)."""

from kafkawire.errors import CorruptBatchError
from kafkawire.ids import Offset
from kafkawire.records import BatchHeader, crc_matches, iterate_batches
from storage.errors import UnexpectedOffsetError


def check_replicated(
    data: memoryview, *, log_start_offset: Offset, log_end_offset: Offset
) -> list[BatchHeader]:
    """Return the headers of the complete batches in `data`, which must continue the log.

    The first batch of an empty log may begin below the log start offset: the leader sends such a
    batch if DeleteRecords has moved its log start offset into the batch.

    Raises:
        CorruptBatchError: a batch is damaged.
        UnexpectedOffsetError: a batch overlaps the log or the batch before it.
    """
    headers: list[BatchHeader] = []
    next_offset = log_end_offset
    is_empty = log_start_offset == log_end_offset
    for header, batch in iterate_batches(data):
        if not crc_matches(batch, header):
            raise CorruptBatchError(f"wrong checksum of the batch at {header.base_offset}")
        holds_start = is_empty and not headers and header.last_offset >= log_end_offset
        if header.base_offset < next_offset and not holds_start:
            is_log_end_inside = not headers and header.last_offset >= log_end_offset
            raise UnexpectedOffsetError(
                f"a batch at {header.base_offset}, expected {next_offset} or above",
                Offset(header.base_offset) if is_log_end_inside else None,
            )
        next_offset = Offset(header.next_offset)
        headers.append(header)
    return headers
