"""Checks each batch of a segment by itself and against earlier batches. Decision: no I/O.

Compaction leaves holes between batches, and batches with fewer records than offsets. They are no
inconsistency here; the caller takes account of them.
"""

from typing import Final

from kafkawire.compression import Codec
from kafkawire.records import BatchHeader, TimestampType, crc_matches
from ottla.cli.logs.finding import Damage, Finding, Report

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_CODEC_MASK: Final = 0b111


class BatchCheck:
    """Check of one segment, fed with its batches in the order of the file."""

    def __init__(self, file: str, base_offset: int, report: Report) -> None:
        self._file = file
        self._base_offset = base_offset
        self._report = report
        self._next_offset = base_offset
        self._leader_epoch = -1
        self._is_first = True

    def check(self, position: int, header: BatchHeader, data: memoryview) -> bool:
        """Report inconsistencies; return whether the checksum matches.

        Only the records of a batch with a matching checksum can be read.
        """
        self._check_place(position, header)
        is_intact = crc_matches(data, header)
        if is_intact:
            self._check_content(position, header)
            self._next_offset = max(self._next_offset, header.next_offset)
        else:
            text = f"the checksum of the bytes is not {header.crc:#010x}, as the batch states"
            self._find(Damage.BAD_CRC, position, header, text)
            # The last offset in a damaged header is not trustworthy.
            self._next_offset = max(self._next_offset, header.base_offset + 1)
        self._is_first = False
        return is_intact

    def _check_place(self, position: int, header: BatchHeader) -> None:
        if header.base_offset < self._base_offset:
            text = f"offset {header.base_offset} lies before the segment's base {self._base_offset}"
            self._find(Damage.WRONG_SEGMENT_NAME, position, header, text)
        elif header.base_offset < self._next_offset:
            text = f"begins at {header.base_offset}, before the next offset {self._next_offset}"
            self._find(Damage.OVERLAPPING_OFFSETS, position, header, text)
        if 0 <= header.leader_epoch < self._leader_epoch:
            text = f"leader epoch {header.leader_epoch} after {self._leader_epoch}"
            self._find(Damage.EPOCH_WENT_BACK, position, header, text)
        self._leader_epoch = max(self._leader_epoch, header.leader_epoch)

    def _check_content(self, position: int, header: BatchHeader) -> None:
        if header.last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            text = f"offset {header.last_offset} is too far from the base {self._base_offset}"
            self._find(Damage.OFFSET_TOO_FAR, position, header, text)
        if not 0 <= header.record_count <= header.last_offset_delta + 1:
            text = f"{header.record_count} records in {header.last_offset_delta + 1} offsets"
            self._find(Damage.WRONG_COUNT, position, header, text)
        if header.attributes & _CODEC_MASK not in set(Codec):
            text = f"compression codec {header.attributes & _CODEC_MASK} does not exist"
            self._find(Damage.BAD_CODEC, position, header, text)
        if _has_wrong_maximum(header):
            text = f"maximum timestamp {header.max_timestamp_ms}, first {header.base_timestamp_ms}"
            self._find(Damage.WRONG_MAX_TIMESTAMP, position, header, text)

    def _find(self, damage: Damage, position: int, header: BatchHeader, text: str) -> None:
        self._report(
            Finding(
                damage=damage,
                file=self._file,
                position=position,
                offset=header.base_offset,
                text=text,
            )
        )


def _has_wrong_maximum(header: BatchHeader) -> bool:
    # A delete horizon replaces the first timestamp; an empty batch has neither.
    return (
        header.timestamp_type is TimestampType.CREATE_TIME
        and header.delete_horizon_ms is None
        and header.record_count > 0
        and header.max_timestamp_ms < header.base_timestamp_ms
    )
