"""Finds the verdicts of audits in a folder (edge)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from logcheck.local_file import list_directory, read_bytes
from ottla.console.files.verdict import VerdictReport, parse_verdict

VERDICT_FILE: Final = "verdict.json"
MAX_DEPTH: Final = 3
MAX_FOLDERS: Final = 2_000
MAX_REPORTS: Final = 500
MAX_VERDICT_BYTES: Final = 8 * 1024 * 1024


def read_verdicts(folder: Path) -> tuple[list[VerdictReport], list[str]]:
    """Return the verdicts below `folder`, the newest first, and a sentence per unreadable one.

    Raises:
        OSError: the folder cannot be read.
    """
    reports, problems = [], []
    for path, size_bytes in _files(folder):
        name = _in_utf_8(path.parent.relative_to(folder))
        try:
            if size_bytes > MAX_VERDICT_BYTES:
                raise ValueError(f"{name} has a verdict of {size_bytes} bytes, too many to show")
            text = read_bytes(str(path)).decode("utf-8", errors="replace")
            written_ms = path.stat().st_mtime_ns // 1_000_000
            reports.append(parse_verdict(name, text, written_ms))
        except ValueError as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{name} cannot be read: {error.strerror}")
    reports.sort(key=lambda report: -report.written_ms)
    return reports, problems


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    left = [(folder, 0)]
    found = folders = 0
    while left and folders < MAX_FOLDERS and found < MAX_REPORTS:
        place, depth = left.pop(0)
        folders += 1
        try:
            entries = list_directory(place)
        except OSError:
            if place == folder:
                raise
            continue
        for entry in entries:
            if entry.is_directory and depth < MAX_DEPTH and not entry.name.startswith("."):
                left.append((place / entry.name, depth + 1))
            elif entry.name == VERDICT_FILE and not entry.is_directory:
                found += 1
                yield Path(entry.path), entry.size_bytes


def _in_utf_8(path: Path) -> str:
    """Return the text of a path with other bytes as escapes, such as `\\xff`, for addresses."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
