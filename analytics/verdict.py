"""The verdict on all findings of an audit (decision)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from analytics.coverage import Coverage, cover
from analytics.plan import CHECKS, Audit
from logcheck.finding import Severity

EXIT_CLEAN: Final = 0
EXIT_FOUND: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one audit."""

    audit: str
    partitions: int
    replicas: int
    records: int
    size_bytes: int
    errors: int
    warnings: int
    notes: int
    by_kind: dict[str, int]
    unlisted: dict[str, int]
    """By severity: the number of findings that are only counted, and not listed."""
    coverage: Coverage
    duration_s: float

    @property
    def is_clean(self) -> bool:
        """Whether there is neither an error nor a warning."""
        return not self.errors and not self.warnings

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return EXIT_CLEAN if self.is_clean else EXIT_FOUND

    def line(self) -> str:
        """Return the verdict in one line."""
        totals = (
            f"{self.partitions} partitions, {self.replicas} replicas, {self.records:,} records, "
            f"{self.size_bytes:,} bytes in {self.duration_s:.1f} s"
        )
        if self.is_clean:
            notes = f" ({self.notes} notes)" if self.notes else ""
            return f"{self.audit}: clean{notes}; {totals}"
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.by_kind.items())
        return f"{self.audit}: {self.errors} errors, {self.warnings} warnings ({kinds}); {totals}"

    def lines(self) -> list[str]:
        """Return the verdict and its coverage in a few lines."""
        counts = ", ".join(f"{count:,} {severity}s" for severity, count in self.unlisted.items())
        more = [f"  not listed: {counts} more"] if counts else []
        return [self.line(), *more, *self.coverage.lines()]

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON fields."""
        return {
            "audit": self.audit,
            "clean": self.is_clean,
            "errors": self.errors,
            "warnings": self.warnings,
            "notes": self.notes,
            "by_kind": self.by_kind,
            "unlisted": self.unlisted,
            "partitions": self.partitions,
            "replicas": self.replicas,
            "records": self.records,
            "bytes": self.size_bytes,
            "coverage": self.coverage.to_json(),
            "duration_s": round(self.duration_s, 3),
        }


def judge(
    audit: Audit,
    findings: Sequence[dict[str, Any]],
    summaries: Sequence[dict[str, Any]],
    duration_s: float,
) -> Verdict:
    """Return the verdict on the findings and summaries of all tasks."""
    whole = [summary for summary in summaries if summary.get("shard", 0) == 0]
    severities = Counter(finding["severity"] for finding in findings)
    kinds = Counter(finding["what"] for finding in findings if finding["severity"] != Severity.NOTE)
    return Verdict(
        audit=str(audit),
        partitions=len({(summary["topic"], summary["partition"]) for summary in whole}),
        replicas=len(whole),
        records=sum(summary.get("records", 0) for summary in whole),
        size_bytes=sum(summary.get("bytes", 0) for summary in whole),
        errors=severities[Severity.ERROR],
        warnings=severities[Severity.WARNING],
        notes=severities[Severity.NOTE],
        by_kind=dict(kinds.most_common()),
        unlisted=_unlisted(findings),
        coverage=cover([str(check) for check in CHECKS[audit]], whole),
        duration_s=duration_s,
    )


def _unlisted(findings: Sequence[dict[str, Any]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[finding["severity"]] += finding["more"]
    return {severity: counts[severity] for severity in Severity if counts[severity]}
