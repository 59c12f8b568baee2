"""The files of a log directory that belong into a backup (decision).

Left out are locks, files that are deleted or being written, directories that are set aside, and the
marks that vouch for a directory: that its last stop was clean, and the boot of its machine. Without
them a restored broker recovers its logs, and leaves the in-sync sets of partitions in which other
replicas may be ahead.
"""

import re
from collections.abc import Iterable
from typing import Final

TOP_FILES: Final = re.compile(r"meta\.properties|[a-z-]+-checkpoint")
PARTITION: Final = re.compile(r"\S+-\d{1,10}")
COORDINATOR: Final = "coordinator"
SESSION: Final = "coordinator-session"
COORDINATOR_LOG: Final = re.compile(r"wal-\S+\.log")
COORDINATOR_FILES: Final = re.compile(rf"store|{COORDINATOR_LOG.pattern}|snap-\S+\.msgpack")
UNFINISHED: Final = (".deleted", ".cleaned", ".tmp")
INDEX_SUFFIXES: Final = (".index", ".timeindex")
LOG_SUFFIX: Final = ".log"


def is_top_file(name: str, *, has_coordinator: bool) -> bool:
    """Whether a file of a log directory belongs into a backup.

    The session of a broker that has its own coordinator is in that coordinator's data, too, and the
    restored broker ends it. With any other coordinator it is the session of a broker that may live.
    """
    return TOP_FILES.fullmatch(name) is not None or (has_coordinator and name == SESSION)


def is_part(name: str) -> bool:
    """Whether a directory in a log directory belongs into a backup."""
    return name == COORDINATOR or PARTITION.fullmatch(name) is not None


def is_coordinator(names: Iterable[str]) -> bool:
    """Whether these are the names in the data directory of a coordinator."""
    return "store" in names


def is_coordinator_log(name: str) -> bool:
    """Whether this is the name of a segment of a coordinator's log."""
    return COORDINATOR_LOG.fullmatch(name) is not None


def chosen_files(names: Iterable[str], *, is_in_use: bool) -> list[str]:
    """Return the files of a partition, or of a coordinator, that belong into a backup.

    The indexes of the newest segment of a log in use change with it: a broker builds them again.
    """
    kept = sorted(name for name in names if not name.endswith(UNFINISHED))
    if is_coordinator(kept):
        return [name for name in kept if COORDINATOR_FILES.fullmatch(name)]
    segments = [name for name in kept if name.endswith(LOG_SUFFIX)]
    if not is_in_use or not segments:
        return kept
    newest = segments[-1].removesuffix(LOG_SUFFIX)
    return [name for name in kept if name not in {newest + suffix for suffix in INDEX_SUFFIXES}]
