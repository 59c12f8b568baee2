"""Decision: S7, log start <= high watermark <= end, recovery point <= end, cleaner <= active."""

from collections.abc import Callable

from logcheck.file_name import CLEANER_POINT, HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from logcheck.finding import Check, Damage, Finder, Report
from logcheck.replica_files import ReplicaFiles


def check_checkpoints(
    replica: ReplicaFiles, log_end: int, place_of: Callable[[str], str], report: Report
) -> None:
    """Report checkpoints of one replica that contradict its log or each other.

    `place_of` returns the path of a checkpoint file.
    """

    finder = Finder(Check.CHECKPOINTS, report)

    def find(file: str, offset: int, expected: str) -> None:
        place = place_of(file), None, offset
        finder.find(Damage.CHECKPOINT_BEYOND, *place, expected, str(offset))

    for file, offset in (
        (LOG_START, replica.log_start),
        (RECOVERY_POINT, replica.recovery_point),
        (HIGH_WATERMARK, replica.high_watermark),
    ):
        if offset is not None and offset > log_end:
            find(file, offset, f"at most the log end offset {log_end}")
    start, watermark = replica.log_start or 0, replica.high_watermark
    if watermark is not None and watermark < min(start, log_end):
        find(HIGH_WATERMARK, watermark, f"at least the log start offset {start}")
    active_base = replica.segments[-1].base_offset if replica.segments else log_end
    if replica.cleaner_point is not None and replica.cleaner_point > active_base:
        expected = f"at most the active segment's base offset {active_base}"
        find(CLEANER_POINT, replica.cleaner_point, expected)
