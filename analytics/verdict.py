"""Decision: what all findings together amount to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from analytics.finding import Severity

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
    duration_s: float

    @property
    def is_clean(self) -> bool:
        """Whether nothing but notes was found."""
        return not self.errors and not self.warnings

    @property
    def exit_code(self) -> int:
        """What the command ends with."""
        return EXIT_CLEAN if self.is_clean else EXIT_FOUND

    def line(self) -> str:
        """The verdict in one line."""
        what = (
            f"{self.partitions} partitions, {self.replicas} replicas, {self.records:,} records, "
            f"{self.size_bytes:,} bytes in {self.duration_s:.1f} s"
        )
        if self.is_clean:
            notes = f" ({self.notes} notes)" if self.notes else ""
            return f"{self.audit}: clean{notes}; {what}"
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.by_kind.items())
        return f"{self.audit}: {self.errors} errors, {self.warnings} warnings ({kinds}); {what}"

    def to_json(self) -> dict[str, Any]:
        """The verdict for programs."""
        return {
            "audit": self.audit,
            "clean": self.is_clean,
            "errors": self.errors,
            "warnings": self.warnings,
            "notes": self.notes,
            "by_kind": self.by_kind,
            "partitions": self.partitions,
            "replicas": self.replicas,
            "records": self.records,
            "bytes": self.size_bytes,
            "duration_s": round(self.duration_s, 3),
        }


def judge(
    audit: str,
    findings: Sequence[dict[str, Any]],
    summaries: Sequence[dict[str, Any]],
    duration_s: float,
) -> Verdict:
    """The verdict on the findings and summaries of all tasks."""
    whole = [summary for summary in summaries if summary.get("shard", 0) == 0]
    severities = Counter(finding["severity"] for finding in findings)
    kinds = Counter(finding["what"] for finding in findings if finding["severity"] != Severity.NOTE)
    return Verdict(
        audit=audit,
        partitions=len({(summary["topic"], summary["partition"]) for summary in whole}),
        replicas=len(whole),
        records=sum(summary.get("records", 0) for summary in whole),
        size_bytes=sum(summary.get("bytes", 0) for summary in whole),
        errors=severities[Severity.ERROR],
        warnings=severities[Severity.WARNING],
        notes=severities[Severity.NOTE],
        by_kind=dict(kinds.most_common()),
        duration_s=duration_s,
    )
