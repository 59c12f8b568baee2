"""Turns the bytes of a file into the items of its dump, findings included. Decision: no I/O."""

from collections.abc import Iterator

from ottla.cli.logs.batch_check import BatchCheck
from ottla.cli.logs.checkpoint_check import (
    read_epoch_checkpoint,
    read_offset_checkpoint,
    read_properties,
)
from ottla.cli.logs.file_name import FileKind, FileName
from ottla.cli.logs.finding import Damage, Finding
from ottla.cli.logs.item import (
    BatchItem,
    FileItem,
    FindingItem,
    Item,
    RecordItem,
    RowItem,
    Summary,
)
from ottla.cli.logs.offset_index_check import check_offset_index, read_offset_index
from ottla.cli.logs.picture import SegmentBatches
from ottla.cli.logs.record_check import are_records_right, check_records
from ottla.cli.logs.snapshot_check import read_snapshot
from ottla.cli.logs.source import ByteSource
from ottla.cli.logs.time_index_check import check_time_index, read_time_index
from ottla.cli.logs.walk import walk


class Findings:
    """Queue of reported findings that the dump has not yielded yet, and their total count."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: list[Finding] = []

    def report(self, finding: Finding) -> None:
        """Add a finding, which the next `drain` returns."""
        self.count += 1
        self._waiting.append(finding)

    def drain(self) -> list[FindingItem]:
        """Return the findings reported since the last call."""
        waiting, self._waiting = self._waiting, []
        return [FindingItem(finding) for finding in waiting]


def dump_segment(
    source: ByteSource,
    file: str,
    name: FileName,
    *,
    with_records: bool,
    yields_records: bool = True,
) -> Iterator[Item]:
    """Yield the items of a `.log` file; `with_records` reads the records too.

    Without `yields_records` the records are only checked, which is much faster.
    """
    findings, summary = Findings(), Summary(file)
    yield FileItem(file, str(FileKind.SEGMENT), source.size_bytes)
    if not name.is_well_formed:
        findings.report(_wrong_name(file))
    base_offset = name.base_offset or 0
    check = BatchCheck(file, base_offset, findings.report)
    for position, header, data in walk(source, file, findings.report):
        yield from findings.drain()
        is_intact = check.check(position, header, data)
        summary.add_batch(header)
        yield BatchItem(file, position, header, is_intact)
        if with_records and is_intact and (yields_records or not are_records_right(header, data)):
            records = check_records(file, position, header, data, findings.report)
            if yields_records:
                yield from (RecordItem(file, record, header.is_control) for record in records)
        yield from findings.drain()
    yield from findings.drain()
    summary.finding_count = findings.count
    yield summary


def dump_index(
    data: bytes,
    file: str,
    name: FileName,
    batches: SegmentBatches | None,
    *,
    is_active: bool,
) -> Iterator[Item]:
    """Yield the items of a `.index` or `.timeindex` file.

    Without the `batches` of its segment, the entries are only checked among themselves, and the
    missing segment is a finding.
    """
    findings, summary = Findings(), Summary(file)
    yield FileItem(file, str(name.kind), len(data))
    if not name.is_well_formed:
        findings.report(_wrong_name(file))
    if batches is None:
        text = "the index has no segment, so its entries cannot be compared with batches"
        findings.report(Finding(damage=Damage.MISSING_FILE, file=file, position=0, text=text))
    base_offset = name.base_offset or 0
    if name.kind is FileKind.OFFSET_INDEX:
        entries = read_offset_index(data, file, base_offset, findings.report)
        if batches is not None:
            summary.shape = check_offset_index(entries, batches, file, findings.report)
        rows = [
            RowItem(file, "index_entry", {"offset": entry.offset, "position": entry.position})
            for entry in entries
        ]
    else:
        times = read_time_index(data, file, base_offset, findings.report)
        if batches is not None:
            check_time_index(times, batches, file, findings.report, is_active=is_active)
        rows = [
            RowItem(
                file,
                "time_index_entry",
                {"timestamp_ms": entry.timestamp_ms, "offset": entry.offset},
            )
            for entry in times
        ]
    yield from rows
    yield from findings.drain()
    summary.count("entry", len(rows))
    summary.finding_count = findings.count
    yield summary


def dump_snapshot(data: bytes, file: str, name: FileName) -> Iterator[Item]:
    """Yield the items of a producer snapshot."""
    findings, summary = Findings(), Summary(file)
    yield FileItem(file, str(name.kind), len(data))
    if not name.is_well_formed:
        findings.report(_wrong_name(file))
    rows = [
        RowItem(file, "producer", dict(entry))
        for entry in read_snapshot(data, file, findings.report)
    ]
    yield from rows
    yield from findings.drain()
    summary.count("producer", len(rows))
    summary.finding_count = findings.count
    yield summary


def dump_text_file(text: str, file: str, name: FileName) -> Iterator[Item]:
    """Yield the items of a checkpoint or a properties file."""
    findings, summary = Findings(), Summary(file)
    yield FileItem(file, str(name.kind), len(text.encode()))
    rows = _text_rows(text, file, name.kind, findings)
    yield from rows
    yield from findings.drain()
    summary.count("line", len(rows))
    summary.finding_count = findings.count
    yield summary


def _text_rows(text: str, file: str, kind: FileKind, findings: Findings) -> list[RowItem]:
    if kind is FileKind.OFFSET_CHECKPOINT:
        return [
            RowItem(
                file,
                "checkpoint_entry",
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "offset": offset,
                },
            )
            for partition, offset in read_offset_checkpoint(text, file, findings.report).items()
        ]
    if kind is FileKind.EPOCH_CHECKPOINT:
        return [
            RowItem(file, "epoch_entry", {"leader_epoch": epoch, "start_offset": offset})
            for epoch, offset in read_epoch_checkpoint(text, file, findings.report)
        ]
    properties = read_properties(text, file, findings.report)
    return [
        RowItem(file, "property", {"key": key, "value": value}) for key, value in properties.items()
    ]


def _wrong_name(file: str) -> Finding:
    text = "the name is not an offset of 20 digits, so offsets are counted from 0"
    return Finding(damage=Damage.WRONG_SEGMENT_NAME, file=file, position=0, text=text)
