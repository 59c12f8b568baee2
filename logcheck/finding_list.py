"""The findings of one replica, with their place filled in and their number limited (decision)."""

from collections import Counter
from dataclasses import replace

from logcheck.finding import Damage, Finding, Severity
from logcheck.replica_files import ReplicaFiles


class FindingList:
    """A list of findings. Beyond `limit` of one damage and severity they are only counted.

    Many notes thus hide no error of the same damage.
    """

    def __init__(self, files: ReplicaFiles, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._counts: Counter[tuple[Damage, Severity]] = Counter()
        self._unlisted: dict[tuple[Damage, Severity], Finding] = {}
        """By kind: the first finding beyond the limit, which stands for all others."""
        self._rows: list[Finding] = []

    def report(self, finding: Finding) -> None:
        """Add a finding, and fill in its place."""
        kind = finding.damage, finding.severity
        self._counts[kind] += 1
        if self._counts[kind] <= self._limit:
            self._rows.append(self._placed(finding))
            return
        before = self._unlisted.get(kind)
        if before is None:
            self._unlisted[kind] = finding
        else:
            self._unlisted[kind] = replace(before, more=before.more + 1 + finding.more)

    def rows(self) -> list[Finding]:
        """Return the findings by file and position, and a final row per kind with its excess."""
        rows = sorted(self._rows, key=lambda row: (row.file, row.position or 0, row.offset or 0))
        for (damage, _), first in self._unlisted.items():
            found = f"{first.more + 1} more of {damage}"
            rows.append(self._placed(replace(first, position=None, offset=None, found=found)))
        return rows

    def _placed(self, finding: Finding) -> Finding:
        topic, partition = self._files.topic, self._files.partition
        replica = finding.replica or self._files.replica
        return replace(finding, topic=topic, partition=partition, replica=replica)
