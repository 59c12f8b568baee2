"""The verdicts of `ottla logs verify` and all audits on log directories, without Spark."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from analytics.discovery import find_replicas, group_by_partition
from analytics.partition_audit import audit_partition
from analytics.plan import Audit, plan_tasks
from logcheck.finding import Check, Finding, Severity
from logcheck.rule import Rules
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories

# `logs verify` does not report its coverage.
ONLY_AUDITED: Final = {Check.COVERAGE}


class Alarm(NamedTuple):
    """A finding that is more than a note, and the audit that reported it."""

    audit: str
    finding: Finding

    @property
    def kind(self) -> tuple[str, str]:
        """The audit and the kind of damage."""
        return self.audit, str(self.finding.damage)

    def __str__(self) -> str:
        finding = self.finding
        return f"{self.audit}: {finding.severity} {finding.check} {finding}"


def verified(roots: Sequence[Path], rules: Rules, *, with_records: bool = True) -> list[Finding]:
    """Return all findings of `ottla logs verify` on the directories together."""
    options = VerifyOptions(with_records=with_records, rules=rules)
    return [
        finding
        for result in verify_directories(list(roots), options)
        for finding in result.findings
    ]


def audited(
    audit: Audit, roots: Sequence[Path], rules: Rules, against: Path | None = None
) -> list[Finding]:
    """Return all findings of an audit."""
    found: list[Finding] = []
    replicas = [each for root in roots for each in find_replicas(str(root), found.append)]
    references = find_replicas(str(against), found.append) if against is not None else []
    tasks = plan_tasks(
        audit,
        group_by_partition(replicas),
        {partition: each[0] for partition, each in group_by_partition(references).items()},
        rules,
    )
    for task in tasks:
        for findings, _ in audit_partition(task):
            found += findings
    return found


class Judge:
    """Audits the replicas of a partition again and again, each one only after a change."""

    def __init__(self) -> None:
        self.disagreements: list[tuple[str, str, int]] = []
        """The findings of only one of `logs verify --deep` and `audit integrity`."""
        self._seen: dict[Path, object] = {}
        self._round = 0

    def alarms(
        self, roots: Sequence[Path], rules: Rules, archive: Path, expired: Path | None = None
    ) -> list[Alarm]:
        """Return every error and warning; `archive` is not compacted, `expired` ran retention."""
        return [
            Alarm(audit, finding)
            for audit, findings in self._verdicts(roots, rules, archive, expired)
            for finding in findings
            # The coverage of an audit is no claim about the log.
            if finding.severity is not Severity.NOTE and finding.check is not Check.COVERAGE
        ]

    def _verdicts(
        self, roots: Sequence[Path], rules: Rules, archive: Path, expired: Path | None
    ) -> Iterator[tuple[str, list[Finding]]]:
        if expired is not None:
            yield "retention", audited(Audit.RETENTION, [expired], rules)
        changed = [root for root in roots if self._has_changed(root)]
        has_new_archive = self._has_changed(archive)
        if not changed and not has_new_archive:
            return
        for root in changed:
            integrity, verify = audited(Audit.INTEGRITY, [root], rules), verified([root], rules)
            self.disagreements += sorted(_faults(integrity) ^ _faults(verify))
            yield "integrity", integrity
            yield "verify", verify
            yield "compaction", audited(Audit.COMPACTION, [root], rules)
            yield "against", audited(Audit.COMPACTION, [root], rules, archive)
        if has_new_archive:
            yield "integrity", audited(Audit.INTEGRITY, [archive], rules)
        self._round += 1
        together = [*roots, archive] if self._round % 2 else [*roots]
        if self._round % 3 == 0:
            together.reverse()
        if len(together) > 1:
            yield "replicas", audited(Audit.REPLICAS, together, rules)
            yield "verify", verified(together, rules, with_records=self._round % 5 == 0)

    def _has_changed(self, root: Path) -> bool:
        now = _state_of(root)
        before, self._seen[root] = self._seen.get(root), now
        return now != before


def _faults(findings: list[Finding]) -> set[tuple[str, str, int]]:
    return {
        (str(each.damage), each.file, -1 if each.offset is None else each.offset)
        for each in findings
        if each.severity is not Severity.NOTE and each.check not in ONLY_AUDITED
    }


def _state_of(root: Path) -> object:
    """Return a value that differs after a change of a file below `root`."""
    found = []
    for directory in (root, *(Path(each) for each in os.scandir(root) if each.is_dir())):
        for entry in os.scandir(directory):
            status = entry.stat(follow_symlinks=False)
            found.append((entry.path, status.st_ino, status.st_size, status.st_mtime_ns))
    return sorted(found)
