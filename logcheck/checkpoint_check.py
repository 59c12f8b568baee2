"""Decision: S7, log start <= high watermark <= end, recovery point <= end, cleaner <= active."""

from collections.abc import Callable
from dataclasses import dataclass

from logcheck.file_name import CLEANER_POINT, HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from logcheck.finding import Check, Damage, Finding, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The checkpoints of one partition; None if its file has no entry."""

    log_start: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    cleaner_point: int | None = None


def check_checkpoints(
    checkpoints: Checkpoints,
    log_end: int,
    active_base: int,
    place_of: Callable[[str], str],
    report: Report,
) -> None:
    """Report checkpoints that contradict their log or each other.

    `active_base` is the base offset of the active segment; `place_of` returns the path of a
    checkpoint file.
    """

    def find(file: str, offset: int, expected: str) -> None:
        report(
            Finding(
                check=Check.CHECKPOINTS,
                damage=Damage.CHECKPOINT_BEYOND,
                file=place_of(file),
                offset=offset,
                expected=expected,
                found=str(offset),
            )
        )

    for file, offset in (
        (LOG_START, checkpoints.log_start),
        (RECOVERY_POINT, checkpoints.recovery_point),
        (HIGH_WATERMARK, checkpoints.high_watermark),
    ):
        if offset is not None and offset > log_end:
            find(file, offset, f"at most the log end offset {log_end}")
    start, watermark = checkpoints.log_start or 0, checkpoints.high_watermark
    if watermark is not None and watermark < min(start, log_end):
        find(HIGH_WATERMARK, watermark, f"at least the log start offset {start}")
    if checkpoints.cleaner_point is not None and checkpoints.cleaner_point > active_base:
        expected = f"at most the active segment's base offset {active_base}"
        find(CLEANER_POINT, checkpoints.cleaner_point, expected)
