"""The files of a partition as a start finds them after a cleaner's unfinished swap (decision).

A cleaner writes `*.cleaned` files and renames them to `*.swap`, then the files of the old segments
to `*.deleted`, then its own to their final names. A broker that was killed meanwhile leaves files
`*.swap`. Its next start removes the segments whose offsets they cover, and renames them; unless
`*.cleaned` files from the same or a lower offset show that they are not complete.

Source: LogLoader of Kafka 3.9.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Final

from logcheck.batch_walk import Batch, Source, Walk
from logcheck.file_name import CLEANED, SWAP, OffsetFile, parse_offset_file
from logcheck.replica_files import Entry

OpenSource = Callable[[str], AbstractContextManager[Source]]
_NOWHERE: Final = 2**63


def finish_swap(entries: Sequence[Entry], open_source: OpenSource) -> list[Entry]:
    """Return the entries with the files of an unfinished swap under their final names."""
    cleaned = (name.base_offset for name, _ in _with_suffix(entries, CLEANED))
    first_cleaned = min(cleaned, default=_NOWHERE)
    swaps = [each for each in _with_suffix(entries, SWAP) if each[0].base_offset < first_cleaned]
    if not swaps:
        return list(entries)
    moved = {entry: replace(entry, name=entry.name.removesuffix(SWAP)) for _, entry in swaps}
    names = {each.name for each in moved.values()}
    covered = _covered((each for each in swaps if each[0].suffix == "log"), open_source)
    kept = (
        each
        for each in entries
        if not (each in moved or each.name in names or _is_old(each, covered))
    )
    return sorted([*kept, *moved.values()], key=lambda each: each.name)


def _with_suffix(entries: Iterable[Entry], suffix: str) -> Iterator[tuple[OffsetFile, Entry]]:
    for entry in entries:
        name = parse_offset_file(entry.name.removesuffix(suffix))
        if name is not None and entry.name.endswith(suffix):
            yield name, entry


def _covered(logs: Iterable[tuple[OffsetFile, Entry]], open_source: OpenSource) -> range:
    """Return the offsets that the new segments replace."""
    # A segment without batches still replaces the one at its base offset.
    ends = {name.base_offset: _end_of(entry, open_source) for name, entry in logs}
    first = min(ends, default=0)
    return range(first, max(first + 1, *ends.values())) if ends else range(0)


def _end_of(log: Entry, open_source: OpenSource) -> int:
    """Return the offset after the last batch of the file; 0 without any that can be read."""
    end = 0
    # The scan of the segment reports an error.
    with suppress(OSError), open_source(log.path) as source:
        for item in Walk(source, log.path, lambda _: None).items():
            end = item.header.last_offset + 1 if isinstance(item, Batch) else end
    return end


def _is_old(entry: Entry, covered: range) -> bool:
    name = parse_offset_file(entry.name)
    return name is not None and name.suffix != "snapshot" and name.base_offset in covered
