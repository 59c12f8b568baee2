"""Opens the files of a dump (edge).

A live broker appends to the segment first. A segment read after its index therefore contains every
batch that the index refers to.
"""

from collections.abc import Iterator
from pathlib import Path

from kafkawire.internal_topic import TRANSACTIONS_TOPIC
from logcheck.batch_walk import Batch, Walk
from logcheck.file_name import (
    FileKind,
    FileName,
    parse_file_name,
    parse_offset_file,
    parse_partition_directory,
)
from logcheck.local_file import FileSource, read_bytes
from logcheck.segment_columns import SegmentColumns
from ottla.cli.logs.dump import (
    dump_index,
    dump_segment,
    dump_snapshot,
    dump_text_file,
    dump_transaction_index,
)
from ottla.cli.logs.item import Item


def dump_file(path: Path, *, with_records: bool) -> Iterator[Item] | None:
    """Return the items of one file, or None if its name is not one of Kafka's file names."""
    name = parse_file_name(path.name)
    if name is None:
        return None
    if name.kind is FileKind.SEGMENT:
        return _dump_segment(path, name, with_records=with_records)
    if name.kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        return _dump_index(path, name)
    if name.kind is FileKind.TRANSACTION_INDEX:
        return dump_transaction_index(read_bytes(str(path)), str(path), name)
    if name.kind is FileKind.PRODUCER_SNAPSHOT:
        return dump_snapshot(read_bytes(str(path)), str(path), name)
    return dump_text_file(read_bytes(str(path)), str(path), name)


def _dump_segment(path: Path, name: FileName, *, with_records: bool) -> Iterator[Item]:
    with FileSource(path) as source:
        partition = parse_partition_directory(path.absolute().parent.name)
        yield from dump_segment(
            source,
            str(path),
            name,
            with_records=with_records,
            is_transaction_log=partition is not None and partition.topic == TRANSACTIONS_TOPIC,
        )


def _dump_index(path: Path, name: FileName) -> Iterator[Item]:
    # Listed before the index is read: a roll completes the time index before it creates the next
    # segment.
    others = [parse_offset_file(segment.name) for segment in path.parent.glob("*.log")]
    is_active = all(each is None or each.base_offset <= name.base_offset for each in others)
    data = read_bytes(str(path))
    suffix = ".index" if name.kind is FileKind.OFFSET_INDEX else ".timeindex"
    segment = path.with_name(path.name.replace(suffix, ".log"))
    columns = _read_columns(segment, name.base_offset) if segment.exists() else None
    yield from dump_index(data, str(path), name, columns, is_active=is_active)


def _read_columns(segment: Path, base_offset: int) -> SegmentColumns:
    """Return the sound batches of a segment; its damage only excuses entries of an index."""
    columns = SegmentColumns(base_offset, str(segment))
    with FileSource(segment) as source:
        walk = Walk(source, str(segment), _ignore)
        for item in walk.items():
            if isinstance(item, Batch):
                columns.add(item.position, item.header)
            elif not item.is_tail:
                columns.damage_at(item.position)
        columns.end_position = walk.end_position
    return columns


def _ignore(_finding: object) -> None:
    """Drop a finding about a segment: the dump of the segment itself reports it."""
