"""The part of a log that an audit compared, and the checks that could not run (decision).

Each replica's summary has `compared`, a list of offset ranges, and `not_checked`, the reason for
each check that its audit could not run. The verdict adds them up.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from analytics.task import AuditTask
from logcheck.finding import Check, Damage, Finding, Severity
from logcheck.replica_files import ReplicaFiles

BY_KEYS: Final = "keys"
BY_BATCHES: Final = "batches"
_MAX_SHOWN: Final = 3

NO_REFERENCE: Final = "there is no reference (--against)"
NO_BATCHES: Final = "a snapshot or ledger has no batches"
NOT_CLEANED: Final = "no checkpoint names a cleaned part"
NO_CHECKPOINTS: Final = "there are no checkpoints beside the partition"
ONE_REPLICA: Final = "only one directory has the partition"
FAILED: Final = "the audit of the partition failed"


@dataclass(frozen=True, slots=True)
class Compared:
    """A range of offsets (end exclusive) that a check compared with another log."""

    check: Check
    by: str
    """`keys` for the last record of each key, `batches` for batches byte by byte."""
    start: int
    end: int

    @property
    def offset_count(self) -> int:
        """Number of offsets; 0 for an empty range."""
        return max(0, self.end - self.start)

    def to_json(self) -> dict[str, Any]:
        """Return the range as JSON fields."""
        return {"check": str(self.check), "by": self.by, "start": self.start, "end": self.end}


def not_checked(task: AuditTask, replica: ReplicaFiles) -> dict[str, str]:
    """Return the checks of the task that cannot run on this replica, with the reason."""
    reasons: dict[Check, str] = {}
    if not replica.cleaner_point:
        reasons |= dict.fromkeys((Check.UNIQUENESS, Check.TOMBSTONES), NOT_CLEANED)
    if task.reference is None:
        is_earlier = task.snapshot is not None
        reasons[Check.UNCLEANABLE] = NO_BATCHES if is_earlier else NO_REFERENCE
        if not is_earlier:
            reasons[Check.PRESERVATION] = NO_REFERENCE
    if not replica.has_checkpoints:
        reasons[Check.CHECKPOINTS] = NO_CHECKPOINTS
    if len(task.replicas) == 1:
        reasons[Check.REPLICAS] = ONE_REPLICA
    return {str(check): why for check, why in reasons.items() if str(check) in task.checks}


def ranges_of(compared: Iterable[Compared]) -> list[dict[str, Any]]:
    """Return the ranges that are not empty as JSON fields."""
    return [each.to_json() for each in compared if each.offset_count]


def nothing_compared(replica: ReplicaFiles, compared: Sequence[Compared]) -> Finding:
    """Return the finding for a comparison that was asked for and had no common offsets."""
    ranges = ", ".join(f"{each.start} to {each.end} by {each.by}" for each in compared)
    return Finding(
        check=Check.COVERAGE,
        damage=Damage.NOTHING_COMPARED,
        file=replica.directory,
        expected="offsets that can be compared with the other log",
        found=f"none: {ranges or 'no keys of this partition'}",
        severity=Severity.WARNING,
    )


def no_reference(replica: ReplicaFiles, reference: str) -> Finding:
    """Return the finding for a partition that the reference lacks."""
    return _not_compared(Check.COVERAGE, Damage.NO_REFERENCE, replica, reference, "none")


def replica_missing(replica: ReplicaFiles) -> Finding:
    """Return the finding for a partition that only one of the compared directories has."""
    places, found = "at least two directories", "only this replica"
    return _not_compared(Check.REPLICAS, Damage.REPLICA_MISSING, replica, places, found)


def _not_compared(
    check: Check, damage: Damage, replica: ReplicaFiles, places: str, found: str
) -> Finding:
    return Finding(
        check=check,
        damage=damage,
        topic=replica.topic,
        partition=replica.partition,
        replica=replica.replica,
        file=replica.directory,
        expected=f"partition {replica.topic}-{replica.partition} in {places}",
        found=f"{found}: the partition was not compared",
        severity=Severity.WARNING,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The sum of the coverage of all replicas."""

    replicas: int
    checks: dict[str, int]
    """Number of replicas on which each check ran."""
    not_checked: dict[str, dict[str, int]]
    """Number of replicas on which a check could not run, by check and reason."""
    compared: list[tuple[str, dict[str, Any]]]
    """Name of a partition and one of its compared ranges."""

    def to_json(self) -> dict[str, Any]:
        """Return the coverage as JSON fields; the summaries have the single ranges."""
        return {
            "checks": self.checks,
            "not_checked": self.not_checked,
            "compared_partitions": len({name for name, _ in self.compared}),
            "compared_offsets": self._offset_count(),
        }

    def lines(self) -> list[str]:
        """Return the coverage in a few lines of text."""
        lines = [f"  checked: {', '.join(map(self._extent, self.checks)) or 'nothing'}"]
        if self.compared:
            count = len({name for name, _ in self.compared})
            shown = [
                f"{name} {each['start']}..{each['end'] - 1} by {each['by']}"
                for name, each in self.compared[:_MAX_SHOWN]
            ]
            more = ", ..." if len(self.compared) > _MAX_SHOWN else ""
            totals = f"{self._offset_count():,} offsets of {count} partitions"
            lines.append(f"  compared: {totals} ({', '.join(shown)}{more})")
        by_reason: dict[str, list[str]] = defaultdict(list)
        for check, reasons in self.not_checked.items():
            for reason, count in reasons.items():
                extent = "" if count == self.replicas else f" in {count} of {self.replicas}"
                by_reason[reason].append(f"{check}{extent}")
        lines += [f"  not checked: {', '.join(checks)}: {why}" for why, checks in by_reason.items()]
        return lines

    def _extent(self, check: str) -> str:
        count = self.checks[check]
        return check if count == self.replicas else f"{check} in {count} of {self.replicas}"

    def _offset_count(self) -> int:
        return sum(each["end"] - each["start"] for _, each in self.compared)


def cover(checks: Sequence[str], summaries: Sequence[dict[str, Any]]) -> Coverage:
    """Return the coverage of an audit's `checks`, by the summary of each replica."""
    ran: Counter[str] = Counter(dict.fromkeys(checks, 0))
    skipped: dict[str, Counter[str]] = defaultdict(Counter)
    compared = []
    for summary in summaries:
        reasons = summary["not_checked"]
        ran.update(check for check in checks if check not in reasons)
        for check, reason in reasons.items():
            skipped[check][reason] += 1
        name = f"{summary['topic']}-{summary['partition']}"
        compared += [(name, each) for each in summary.get("compared", ())]
    return Coverage(
        replicas=len(summaries),
        checks={check: count for check, count in ran.items() if count},
        not_checked={check: dict(reasons) for check, reasons in skipped.items()},
        compared=compared,
    )
