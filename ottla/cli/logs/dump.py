"""Turns the bytes of a file into the items of its dump, findings included (decision)."""

from collections.abc import Iterator
from typing import Final

from kafkawire.records import read_records
from logcheck.batch_check import BatchCheck
from logcheck.batch_walk import Hole, Source, Walk
from logcheck.checkpoint_text import (
    read_epoch_checkpoint,
    read_offset_checkpoint,
    read_properties,
)
from logcheck.epoch_check import EpochCheck
from logcheck.file_name import FileKind, FileName
from logcheck.finding import Check, Damage, Finder, Finding, Report
from logcheck.history import History
from logcheck.offset_check import OffsetCheck
from logcheck.offset_index_check import check_offset_index, read_offset_index
from logcheck.producer_snapshot_bytes import read_producer_snapshot
from logcheck.segment_columns import SegmentColumns
from logcheck.time_index_check import check_time_index, read_time_index
from logcheck.transaction_index import IndexFile, TransactionIndex
from ottla.cli.logs.item import (
    BatchItem,
    FileItem,
    FindingItem,
    Item,
    RecordItem,
    RowItem,
    Summary,
    TransactionItem,
)

_MAX_OFFSET: Final = 2**63 - 1


class Findings:
    """Queue of reported findings that the dump has not yielded yet, and their total count."""

    def __init__(self, file: str, name: FileName) -> None:
        self.count = 0
        self._waiting: list[Finding] = []
        if not name.is_well_formed:
            report_foreign_file(file, self.report)

    def report(self, finding: Finding) -> None:
        """Add a finding, which the next `drain` returns."""
        self.count += 1
        self._waiting.append(finding)

    def drain(self) -> list[FindingItem]:
        """Return the findings reported since the last call."""
        waiting, self._waiting = self._waiting, []
        return [FindingItem(finding) for finding in waiting]


def dump_segment(
    source: Source,
    file: str,
    name: FileName,
    *,
    with_records: bool,
    is_transaction_log: bool = False,
) -> Iterator[Item]:
    """Yield the items of a `.log` file; `with_records` reads the records too.

    With `is_transaction_log` they are decoded as records of `__transaction_state`.

    Compaction leaves gaps between batches, which are no inconsistency of one segment.
    """
    findings, summary = Findings(file, name), Summary(file)
    yield FileItem(file, str(FileKind.SEGMENT), source.size_bytes)
    batches = BatchCheck(file, findings.report)
    offsets, epochs = OffsetCheck(findings.report, None), EpochCheck(findings.report)
    offsets.begin_segment(name.base_offset, file)
    for item in Walk(source, file, findings.report).items():
        batch = item.batch if isinstance(item, Hole) else item
        if batch is not None:
            summary.add_batch(batch.header)
            yield BatchItem(file, batch.position, batch.header, is_intact=batch is item)
        if isinstance(item, Hole):
            offsets.skip_damage()
            yield from findings.drain()
            continue
        if offsets.check(item.position, item.header):
            epochs.add(file, item.position, item.header)
        if not with_records:
            batches.check_header(item)
        elif batches.open(item) is not None:
            is_control = item.header.is_control
            for each in read_records(item.data):
                if is_transaction_log and not is_control:
                    yield TransactionItem(file, each)
                else:
                    yield RecordItem(file, each, is_control)
        yield from findings.drain()
    epochs.conclude((), file, _MAX_OFFSET, History(), begun=())
    yield from findings.drain()
    summary.finding_count = findings.count
    yield summary


def dump_index(
    data: bytes,
    file: str,
    name: FileName,
    segment: SegmentColumns | None,
    *,
    is_active: bool,
) -> Iterator[Item]:
    """Yield the items of a `.index` or `.timeindex` file.

    Without the batches of its `segment`, the entries are only checked among themselves, and the
    missing segment is a finding.
    """
    findings, summary = Findings(file, name), Summary(file)
    yield FileItem(file, str(name.kind), len(data))
    if segment is None:
        is_offset_index = name.kind is FileKind.OFFSET_INDEX
        check = Check.OFFSET_INDEX if is_offset_index else Check.TIME_INDEX
        expected = "a segment beside the index"
        found = "none, so that its entries cannot be compared with batches"
        find = Finder(check, findings.report).find
        find(Damage.SEGMENT_MISSING, file, 0, None, expected, found)
        # No entry is compared with a segment that is damaged from the start.
        segment = SegmentColumns(name.base_offset, file)
        segment.damage_at(0)
    if name.kind is FileKind.OFFSET_INDEX:
        entries = read_offset_index(data, file, findings.report)
        summary.shape = check_offset_index(entries, file, segment, findings.report)
        rows = [
            RowItem(
                file, "index_entry", {"offset": name.base_offset + relative, "position": position}
            )
            for relative, position in entries
        ]
    else:
        entries = read_time_index(data, file, findings.report)
        check_time_index(entries, file, segment, findings.report, is_active=is_active)
        rows = [
            RowItem(
                file,
                "time_index_entry",
                {"timestamp_ms": timestamp_ms, "offset": name.base_offset + relative},
            )
            for timestamp_ms, relative in entries
        ]
    yield from _end(rows, "entry", findings, summary)


def dump_transaction_index(data: bytes, file: str, name: FileName) -> Iterator[Item]:
    """Yield the items of a `.txnindex` file: an entry for each aborted transaction.

    The entries are only checked among themselves; `ottla logs verify` compares them with markers.
    """
    findings = Findings(file, name)
    yield FileItem(file, str(name.kind), len(data))
    index = TransactionIndex([IndexFile(file, name.base_offset, None, data)], findings.report)
    rows = [RowItem(file, "aborted_transaction", dict(entry._asdict())) for entry in index]
    yield from _end(rows, "entry", findings, Summary(file))


def dump_snapshot(data: bytes, file: str, name: FileName) -> Iterator[Item]:
    """Yield the items of a producer snapshot."""
    findings = Findings(file, name)
    yield FileItem(file, str(name.kind), len(data))
    entries = read_producer_snapshot(data, file, findings.report)
    rows = [RowItem(file, "producer", dict(entry._asdict())) for _position, entry in entries]
    yield from _end(rows, "producer", findings, Summary(file))


def dump_text_file(data: bytes, file: str, name: FileName) -> Iterator[Item]:
    """Yield the items of a checkpoint or a properties file."""
    findings = Findings(file, name)
    yield FileItem(file, str(name.kind), len(data))
    rows = _text_rows(data, file, name.kind, findings)
    yield from _end(rows, "line", findings, Summary(file))


def _end(rows: list[RowItem], noun: str, findings: Findings, summary: Summary) -> Iterator[Item]:
    yield from rows
    yield from findings.drain()
    summary.count(noun, len(rows))
    summary.finding_count = findings.count
    yield summary


def _text_rows(data: bytes, file: str, kind: FileKind, findings: Findings) -> list[RowItem]:
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
            for partition, offset in read_offset_checkpoint(data, file, findings.report).items()
        ]
    if kind is FileKind.EPOCH_CHECKPOINT:
        return [
            RowItem(file, "epoch_entry", {"leader_epoch": epoch, "start_offset": offset})
            for _line, epoch, offset in read_epoch_checkpoint(data, file, findings.report)
        ]
    properties = read_properties(data, file, findings.report)
    return [
        RowItem(file, "property", {"key": key, "value": value}) for key, value in properties.items()
    ]


def report_foreign_file(file: str, report: Report) -> None:
    """Report a segment or index whose name is not an offset."""
    expected, found = "an offset of 20 digits as the name", "a file name that no broker uses"
    Finder(Check.CHECKPOINTS, report).find(Damage.FOREIGN_FILE, file, 0, None, expected, found)
