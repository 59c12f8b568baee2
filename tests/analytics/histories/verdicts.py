"""The verdicts of `ottla logs verify` and all audits on log directories, without Spark."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from analytics.discovery import find_replicas, group_by_partition
from analytics.partition_audit import audit_partition
from analytics.plan import Audit, plan_tasks
from logcheck.finding import Check, Finding, Severity
from logcheck.replica_files import ReplicaFiles
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


class Listing(NamedTuple):
    """The replicas in a log directory, and the findings of a look at the names of its files."""

    replicas: list[ReplicaFiles]
    findings: list[Finding]


def listing_of(root: Path) -> Listing:
    """List a log directory."""
    found: list[Finding] = []
    return Listing(list(find_replicas(str(root), found.append)), found)


def audited(
    audit: Audit,
    roots: Sequence[Path],
    rules: Rules,
    against: Path | None = None,
    list_root: Callable[[Path], Listing] = listing_of,
) -> list[Finding]:
    """Return all findings of an audit."""
    listed = [list_root(root) for root in roots]
    references = list_root(against) if against is not None else Listing([], [])
    found = [each for listing in (*listed, references) for each in listing.findings]
    tasks = plan_tasks(
        audit,
        group_by_partition([each for listing in listed for each in listing.replicas]),
        {partition: each[0] for partition, each in group_by_partition(references.replicas).items()},
        rules,
    )
    for task in tasks:
        for findings, _ in audit_partition(task):
            found += findings
    return found


def alarms_in(roots: Sequence[Path], rules: Rules) -> list[Alarm]:
    """Return the errors and warnings in log directories of one cluster, of all audits."""
    verdicts = [
        *(("verify", verified([root], rules)) for root in roots),
        *(("integrity", audited(Audit.INTEGRITY, [root], rules)) for root in roots),
        *(("compaction", audited(Audit.COMPACTION, [root], rules)) for root in roots),
        ("replicas", audited(Audit.REPLICAS, roots, rules)),
        ("verify", verified(roots, rules, with_records=False)),
    ]
    return [
        Alarm(audit, finding)
        for audit, findings in verdicts
        for finding in findings
        if finding.severity is not Severity.NOTE and finding.check is not Check.COVERAGE
    ]


class Judge:
    """Audits the replicas of a partition again and again, each one only after a change."""

    def __init__(self) -> None:
        self.disagreements: list[tuple[str, str, int]] = []
        """The findings of only one of `logs verify --deep` and `audit integrity`."""
        self._seen: dict[Path, object] = {}
        self._listings: dict[Path, Listing] = {}
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
            integrity = self._audited(Audit.INTEGRITY, [root], rules)
            verify = verified([root], rules)
            self.disagreements += sorted(_faults(integrity) ^ _faults(verify))
            yield "integrity", integrity
            yield "verify", verify
            yield "against", self._audited(Audit.COMPACTION, [root], rules, archive)
            # Without a reference, it has no other checks than with one.
            if self._round % 4 == 0:
                yield "compaction", self._audited(Audit.COMPACTION, [root], rules)
        if has_new_archive:
            yield "integrity", self._audited(Audit.INTEGRITY, [archive], rules)
        self._round += 1
        together = [*roots, archive] if self._round % 2 else [*roots]
        if self._round % 3 == 0:
            together.reverse()
        if len(together) > 1:
            yield "replicas", self._audited(Audit.REPLICAS, together, rules)
            if self._round % 4 > 1:
                yield "verify", verified(together, rules, with_records=self._round % 5 == 0)

    def _has_changed(self, root: Path) -> bool:
        now = _state_of(root)
        before, self._seen[root] = self._seen.get(root), now
        if now != before:
            self._listings[root] = listing_of(root)
        return now != before

    def _audited(
        self, audit: Audit, roots: Sequence[Path], rules: Rules, against: Path | None = None
    ) -> list[Finding]:
        """Return all findings of an audit, with one listing of a directory for all audits."""
        return audited(audit, roots, rules, against, self._listings.__getitem__)


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
