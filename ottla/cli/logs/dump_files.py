"""Opens the files of a dump. Edge: reads files; an index is read before its segment.

In that order, because a live broker adds to both: what an index says at a time, its segment says a
moment later.
"""

from collections.abc import Iterator
from pathlib import Path

from ottla.cli.logs.dump import dump_index, dump_segment, dump_snapshot, dump_text_file
from ottla.cli.logs.file_name import FileKind, FileName, parse_file_name
from ottla.cli.logs.file_source import FileSource
from ottla.cli.logs.item import Item
from ottla.cli.logs.picture import SegmentPicture
from ottla.cli.logs.walk import walk


def dump_file(path: Path, *, with_records: bool) -> Iterator[Item] | None:
    """Return the items of one file, or None when its name says nothing that can be read here."""
    name = parse_file_name(path.name)
    if name is None:
        return None
    if name.kind is FileKind.SEGMENT:
        return _dump_segment(path, name, with_records=with_records)
    if name.kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        return _dump_index(path, name)
    if name.kind is FileKind.PRODUCER_SNAPSHOT:
        return dump_snapshot(path.read_bytes(), str(path), name)
    text = path.read_bytes().decode("utf-8", errors="replace")
    return dump_text_file(text, str(path), name)


def read_picture(segment: Path) -> SegmentPicture:
    """Return the picture of a segment, from its batch headers alone."""
    picture = SegmentPicture()
    with FileSource(segment) as source:
        for position, header, _data in walk(source, str(segment), _ignore, with_data=False):
            picture.add(position, header)
    return picture


def is_active(segment: Path) -> bool:
    """Whether `segment` is the last of its directory, the one that a broker would write."""
    names = (parse_file_name(path.name) for path in segment.parent.glob("*.log"))
    bases = [name.base_offset or 0 for name in names if name is not None]
    own = parse_file_name(segment.name)
    return own is None or not bases or (own.base_offset or 0) >= max(bases)


def _dump_segment(path: Path, name: FileName, *, with_records: bool) -> Iterator[Item]:
    with FileSource(path) as source:
        yield from dump_segment(source, str(path), name, with_records=with_records)


def _dump_index(path: Path, name: FileName) -> Iterator[Item]:
    # Asked before reading: a roll completes the time index first, then begins the next segment.
    suffix = ".index" if name.kind is FileKind.OFFSET_INDEX else ".timeindex"
    segment = path.with_name(path.name.replace(suffix, ".log"))
    may_grow = is_active(segment)
    data = path.read_bytes()
    picture = read_picture(segment) if segment.exists() else None
    yield from dump_index(data, str(path), name, picture, is_active=may_grow)


def _ignore(_finding: object) -> None:
    """What is wrong with a segment is told by the segment's own dump."""
