"""Checks the records inside one batch. Decision: no I/O."""

from kafkawire.errors import CorruptBatchError
from kafkawire.records import MAX_DECOMPRESSED_BYTES, BatchHeader, Record, read_records
from kafkawire.records_read import record_section
from kafkawire.records_scanner import survey_records
from ottla.cli.logs.finding import Damage, Finding, Report


def are_records_right(header: BatchHeader, data: memoryview) -> bool:
    """Whether the records are certainly consistent; fast with the compiled scanner.

    After False, `check_records` finds the inconsistency, if there is one.
    """
    try:
        section = record_section(data, header, MAX_DECOMPRESSED_BYTES)
        survey = survey_records(section, header.record_count, header.base_timestamp_ms)
    except CorruptBatchError:
        return False
    is_whole = header.record_count == header.last_offset_delta + 1
    in_place = survey.first_out_of_place < 0
    return is_whole and in_place and survey.latest_timestamp_ms <= header.max_timestamp_ms


def check_records(
    file: str, position: int, header: BatchHeader, data: memoryview, report: Report
) -> list[Record]:
    """Return the records of the batch; report their disagreements with the header."""

    def find(damage: Damage, offset: int, text: str) -> None:
        report(Finding(damage=damage, file=file, position=position, offset=offset, text=text))

    try:
        # Also raises if the number of records differs from the count in the header.
        records = read_records(data)
    except CorruptBatchError as error:
        find(Damage.BAD_RECORDS, header.base_offset, f"the records cannot be read: {error}")
        return []
    lowest = header.base_offset
    for record in records:
        if not lowest <= record.offset <= header.last_offset:
            text = f"record {record.offset} is outside {lowest}..{header.last_offset}"
            find(Damage.WRONG_RECORD_OFFSET, record.offset, text)
        lowest = max(lowest, record.offset + 1)
        if record.timestamp_ms > header.max_timestamp_ms:
            text = (
                f"record timestamp {record.timestamp_ms} exceeds the batch's maximum "
                f"{header.max_timestamp_ms}"
            )
            find(Damage.WRONG_MAX_TIMESTAMP, record.offset, text)
    return records
