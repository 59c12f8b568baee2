"""Decision: the findings of one task, with their place filled in and their number bounded."""

from collections import Counter
from dataclasses import replace

from analytics.finding import Finding


class FindingList:
    """Collects findings; beyond `limit` of one kind they are counted, and said so in the end."""

    def __init__(self, topic: str, partition: int, replica: str, limit: int) -> None:
        self._topic = topic
        self._partition = partition
        self._replica = replica
        self._limit = limit
        self._counts: Counter[str] = Counter()
        self._rows: list[Finding] = []

    def report(self, finding: Finding) -> None:
        """Take one more finding of this place."""
        self._counts[finding.what] += 1
        if self._counts[finding.what] <= self._limit:
            self._rows.append(
                replace(
                    finding,
                    topic=self._topic,
                    partition=self._partition,
                    replica=finding.replica or self._replica,
                )
            )

    def rows(self) -> list[Finding]:
        """The findings, by file and position; kinds that were cut end with a row that says so."""
        rows = sorted(self._rows, key=lambda row: (row.file, row.position or 0, row.offset or 0))
        for what, count in self._counts.items():
            if count > self._limit:
                last = next(row for row in reversed(rows) if row.what == what)
                found = f"{count - self._limit} more of {what}"
                rows.append(replace(last, position=None, offset=None, found=found))
        return rows
