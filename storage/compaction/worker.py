"""A cleaner in its own process: `python -m storage.compaction.worker` (composition).

The process reads one job from standard input, writes reports to standard output, and exits. It can
be killed at any moment, and exits by itself when its parent has gone.
"""

import errno
import os
import sys
import time
from collections.abc import Iterator
from typing import Final, TextIO

import structlog

from monitoring.log_lines import log_lines
from storage.compaction.cleaner import Cleaner
from storage.compaction.job import CleaningFailed, CleaningJob, Report, write_report
from storage.disk.directory_health import PASSING_ERRORS
from storage.errors import CorruptLogError, OffsetOverflowError, StorageError

log = structlog.get_logger(__name__)

RETRIED_ERRORS: Final = PASSING_ERRORS | {errno.ENOENT}
"""Space or descriptors are lacking now, or a segment was deleted concurrently."""


class OrphanError(Exception):
    """The parent process has gone, so the result is not needed."""


def main(source: TextIO, sink: TextIO) -> None:
    """Execute the job from `source`, and write reports to `sink`."""
    job = CleaningJob.from_line(source.readline())
    for report in _reports(job, os.getppid()):
        sink.write(write_report(report))
        sink.flush()


def _reports(job: CleaningJob, parent: int) -> Iterator[Report]:
    def clock() -> float:
        # The cleaner calls this with every read: without a parent it must not write another file.
        if os.getppid() != parent:
            raise OrphanError
        return time.monotonic()

    try:
        yield from Cleaner(job, seed=os.urandom(16), clock=clock).clean()
    except OSError as error:
        yield CleaningFailed(error=str(error), is_damage=error.errno not in RETRIED_ERRORS)
    except StorageError as error:
        # All other errors come from the broker's configuration.
        is_damage = isinstance(error, CorruptLogError | OffsetOverflowError)
        yield CleaningFailed(error=str(error), is_damage=is_damage)
    except OrphanError:
        raise
    except Exception as error:
        # A bug, or memory is lacking now. The log is not to blame, and is cleaned after the others.
        log.exception("cleaner.failed", directory=job.directory)
        yield CleaningFailed(error=repr(error), is_damage=False)


if __name__ == "__main__":
    # An interrupt from the terminal must reach only the broker, so leave its process group.
    os.setpgid(0, 0)
    # Standard output carries the reports, so the log goes to standard error.
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(log_lines(sys.stderr)))
    try:
        main(sys.stdin, sys.stdout)
    except (OrphanError, BrokenPipeError):
        # The reader has gone: exit without a traceback about unwritten output.
        os._exit(1)
