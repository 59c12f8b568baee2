"""S1: the records of each batch agree with its header (decision)."""

from typing import Final

from kafkawire.columns_loops import SectionSurvey, SoundBatch
from kafkawire.compression import MAX_DECOMPRESSED_BYTES, Decompressor
from kafkawire.errors import CorruptBatchError
from kafkawire.native import survey_section
from kafkawire.records import TimestampType
from kafkawire.records_read import record_section
from logcheck.batch_walk import Batch
from logcheck.finding import Check, Damage, Finder, Report

NO_SECTION: Final = memoryview(b"")
UNREAD: Final = SectionSurvey(-1, -1, 0, 0)
"""The survey of records that were not read."""


class BatchCheck:
    """The check of the batches in one file, one by one."""

    def __init__(self, file: str, report: Report) -> None:
        self._file = file
        self._finder = Finder(Check.BATCHES, report)
        self._decompressor = Decompressor()

    def check_header(self, batch: Batch) -> SoundBatch:
        """Check a batch by its header alone; its records are not read."""
        header = batch.header
        if header.record_count > header.last_offset_delta + 1:
            self._find_count(batch)
        # A delete horizon replaces the first timestamp; an empty batch has neither.
        if (
            header.timestamp_type is TimestampType.CREATE_TIME
            and header.delete_horizon_ms is None
            and header.record_count > 0
            and header.max_timestamp_ms < header.base_timestamp_ms
        ):
            expected = f"nothing newer than {header.max_timestamp_ms} ms"
            found = f"{header.base_timestamp_ms} ms in the first record"
            self._find(Damage.RECORD_TIMESTAMP, batch, expected, found)
        return SoundBatch(self._file, batch.position, header, batch.data, NO_SECTION, UNREAD)

    def open(self, batch: Batch) -> SoundBatch | None:
        """Decompress and check a batch; return None if its records cannot be trusted."""
        header = batch.header
        try:
            whole = record_section(batch.data, header, MAX_DECOMPRESSED_BYTES, self._decompressor)
            section = memoryview(whole)
            survey = survey_section(
                section, header.record_count, header.last_offset_delta, header.base_timestamp_ms
            )
        except CorruptBatchError as error:
            expected = f"{header.record_count} records, codec {header.codec.name.lower()}"
            self._find(Damage.BAD_RECORDS, batch, expected, str(error))
            return None
        self._compare(batch, survey)
        return SoundBatch(self._file, batch.position, header, batch.data, section, survey)

    def _compare(self, batch: Batch, survey: SectionSurvey) -> None:
        header = batch.header
        if header.record_count > header.last_offset_delta + 1:
            self._find_count(batch)
        elif survey.first_out_of_order >= 0:
            expected = f"increasing offsets up to {header.last_offset}"
            self._find(Damage.RECORD_OFFSET, batch, expected, f"record {survey.first_out_of_order}")
        # Brokers compute the maximum of every batch that they append or clean. An empty batch keeps
        # the maximum of its removed records.
        newest_ms, has_time = survey.newest_timestamp_ms, survey.newest_timestamp_ms >= 0
        if (
            header.timestamp_type is TimestampType.CREATE_TIME
            and header.record_count > 0
            and newest_ms != header.max_timestamp_ms
            and (has_time or header.max_timestamp_ms >= 0)
        ):
            expected = f"{header.max_timestamp_ms} ms in the newest record"
            self._find(Damage.RECORD_TIMESTAMP, batch, expected, f"{newest_ms} ms")

    def _find_count(self, batch: Batch) -> None:
        expected = f"at most {batch.header.last_offset_delta + 1} records"
        self._find(Damage.RECORD_COUNT, batch, expected, str(batch.header.record_count))

    def _find(self, damage: Damage, batch: Batch, expected: str, found: str) -> None:
        place = self._file, batch.position, batch.header.base_offset
        self._finder.find(damage, *place, expected, found)
