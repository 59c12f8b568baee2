"""Partitions that a broker moves between its log directories during a backup (edge).

A move ends with two renames: the copy in one log directory gets the name of the partition, and then
the original in another one is set aside. A backup lists these directories at different times. It
could find the partition in neither, or in both.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from ottla.cli.backup.selection import COORDINATOR, is_part

META_PROPERTIES: Final = "meta.properties"
_OWNER: Final = ("cluster.id=", "broker.id=", "node.id=")

Owner: TypeAlias = Path | frozenset[str]


class Moves:
    """The partitions of log directories at the beginning, and the copied partitions."""

    def __init__(self, sources: Sequence[Path]) -> None:
        """List the directories.

        Raises:
            OSError: one of them cannot be read.
        """
        self._owners = {source: _owner_of(source) for source in sources}
        self._at_start = {source: set(_parts_in(source)) for source in sources}
        self._listed: list[Path] = []
        self._copied: dict[tuple[Owner, str], tuple[Path, int]] = {}
        """By broker and partition, the place of the newest copy, and the time in its mark."""

    def list_parts(self, source: Path) -> list[str]:
        """Return the parts to copy: all that are there now, or were there at the beginning."""
        found = self._at_start[source] | set(_parts_in(source))
        self._listed.append(source)
        # The coordinator last: its leader epochs must not be behind a log's.
        return sorted(found, key=lambda part: (part == COORDINATOR, part))

    def places_of(self, source: Path, part: str) -> list[Path]:
        """Return the directories in which to look for a part that is to be copied from `source`.

        A partition that has moved to a directory which was listed before is in no listing.
        """
        places = [source / part]
        if part != COORDINATOR and (self._owners[source], part) not in self._copied:
            owner = self._owners[source]
            others = (each for each in self._listed if each != source)
            places += [each / part for each in others if self._owners[each] == owner]
        return places

    def mark_of(self, source: Path, part: str, own_ms: int) -> int:
        """Note a copy; return the time for its mark, 0 for none. `own_ms` is that of its original.

        A broker starts on the copy with the latest mark, and does not start if two are equal. The
        end of a move has removed the mark that it had set.
        """
        key = self._owners[source], part
        place, newest_ms = self._copied.get(key, (source, -1))
        if own_ms <= newest_ms:
            if own_ms < newest_ms and place.exists():
                # A move is about to end: this is the original, which is not set aside yet.
                return own_ms
            own_ms = newest_ms + 1
        self._copied[key] = source / part, own_ms
        return own_ms


def _owner_of(source: Path) -> Owner:
    """Return a value that the log directories of one broker share."""
    try:
        text = (source / META_PROPERTIES).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return source
    return frozenset(line for line in text.splitlines() if line.startswith(_OWNER)) or source


def _parts_in(source: Path) -> Iterable[str]:
    return (each.name for each in source.iterdir() if is_part(each.name) and _is_folder(each))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
