"""Checks each batch of one segment against itself and against those before it. Decision: no I/O.

Holes between batches, and batches with fewer records than offsets, are what compaction leaves: they
are counted by the caller and are no inconsistency.
"""

from typing import Final

from kafkawire.compression import Codec
from kafkawire.records import BatchHeader, TimestampType, crc_matches
from ottla.cli.logs.finding import Damage, Finding, Report

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_CODEC_MASK: Final = 0b111


class BatchCheck:
    """The rules of one segment, fed with its batches in the order of the file."""

    def __init__(self, file: str, base_offset: int, report: Report) -> None:
        self._file = file
        self._base_offset = base_offset
        self._report = report
        self._next_offset = base_offset
        self._leader_epoch = -1
        self._is_first = True

    def check(self, position: int, header: BatchHeader, data: memoryview) -> bool:
        """Report what is wrong; whether the checksum is right, so that the records can be read."""
        self._check_place(position, header)
        is_intact = crc_matches(data, header)
        if is_intact:
            self._check_content(position, header)
            self._next_offset = max(self._next_offset, header.next_offset)
        else:
            text = f"the checksum of the bytes is not {header.crc:#010x}, which the batch states"
            self._find(Damage.BAD_CRC, position, header, text)
            # What a damaged header says of its end is not to be believed.
            self._next_offset = max(self._next_offset, header.base_offset + 1)
        self._is_first = False
        return is_intact

    def _check_place(self, position: int, header: BatchHeader) -> None:
        if header.base_offset < self._base_offset:
            text = f"offset {header.base_offset} in a segment named from {self._base_offset}"
            self._find(Damage.WRONG_SEGMENT_NAME, position, header, text)
        elif header.base_offset < self._next_offset:
            text = f"begins at {header.base_offset}, the log had reached {self._next_offset}"
            self._find(Damage.OVERLAPPING_OFFSETS, position, header, text)
        if 0 <= header.leader_epoch < self._leader_epoch:
            text = f"leader epoch {header.leader_epoch} after {self._leader_epoch}"
            self._find(Damage.EPOCH_WENT_BACK, position, header, text)
        self._leader_epoch = max(self._leader_epoch, header.leader_epoch)

    def _check_content(self, position: int, header: BatchHeader) -> None:
        if header.last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            text = f"offset {header.last_offset} is too far from the segment's {self._base_offset}"
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
    # A delete horizon takes the place of the first timestamp; an empty batch has neither.
    return (
        header.timestamp_type is TimestampType.CREATE_TIME
        and header.delete_horizon_ms is None
        and header.record_count > 0
        and header.max_timestamp_ms < header.base_timestamp_ms
    )
