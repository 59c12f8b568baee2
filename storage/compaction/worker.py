"""A cleaner as a process of its own: `python -m storage.compaction.worker` (composition).

Reads one job from its standard input, writes reports to its standard output, and ends. It may be
killed at any moment; it ends by itself when its parent is gone.
"""

import errno
import os
import sys
import time
from collections.abc import Iterator
from typing import Final, TextIO

import structlog

from storage.compaction.cleaner import Cleaner
from storage.compaction.job import CleaningFailed, CleaningJob, Report, write_report
from storage.errors import CorruptLogError, OffsetOverflowError, StorageError

PASSING_ERRORS: Final = frozenset({errno.ENOENT, errno.ENOSPC, errno.EDQUOT})
"""A segment was deleted meanwhile, or there is no room now: another try may go well."""


class OrphanError(Exception):
    """The parent is gone, and nobody waits for the result."""


def main(source: TextIO, sink: TextIO) -> None:
    """Do the job that `source` names, and report to `sink`."""
    job = CleaningJob.from_line(source.readline())
    for report in _reports(job, os.getppid()):
        sink.write(write_report(report))
        sink.flush()


def _reports(job: CleaningJob, parent: int) -> Iterator[Report]:
    def clock() -> float:
        # Called with every read: a cleaner without a parent must not write another file.
        if os.getppid() != parent:
            raise OrphanError
        return time.monotonic()

    try:
        yield from Cleaner(job, seed=os.urandom(16), clock=clock).clean()
    except OSError as error:
        yield CleaningFailed(error=str(error), is_damage=error.errno not in PASSING_ERRORS)
    except StorageError as error:
        # The rest is a matter of the broker's configuration.
        is_damage = isinstance(error, CorruptLogError | OffsetOverflowError)
        yield CleaningFailed(error=str(error), is_damage=is_damage)


if __name__ == "__main__":
    # What interrupts the broker at a terminal is for the broker to handle.
    os.setpgid(0, 0)
    # What is printed is for the broker; whatever else is to be said goes elsewhere.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        main(sys.stdin, sys.stdout)
    except (OrphanError, BrokenPipeError):
        # Nobody reads any more; leave without a word about what could not be written.
        os._exit(1)
