"""The findings of one task, with their place filled in and their number limited (decision)."""

from collections import Counter
from dataclasses import asdict, replace
from typing import Any, Final

from logcheck.finding import Finding
from logcheck.replica_files import ReplicaFiles

FINDING_SCHEMA: Final = (
    "check string, what string, topic string, partition int, replica string, file string, "
    "position bigint, offset bigint, expected string, found string, severity string"
)
"""The columns of every table of findings, as a Spark schema string."""


def arrow_schema(pyarrow: Any) -> Any:
    """Return FINDING_SCHEMA as an Arrow schema."""
    types = {"string": pyarrow.string(), "int": pyarrow.int32(), "bigint": pyarrow.int64()}
    columns = (column.split() for column in FINDING_SCHEMA.split(", "))
    return pyarrow.schema([(name, types[kind]) for name, kind in columns])


def finding_row(finding: Finding) -> dict[str, str | int | None]:
    """Return the finding as a row of FINDING_SCHEMA; its damage is the column `what`."""
    row = asdict(finding)
    row |= {name: printable(row[name]) for name in ("replica", "file", "expected", "found")}
    return {"check": row.pop("check"), "what": row.pop("damage"), **row}


def printable(text: str) -> str:
    """Return the text with the bytes of a name that is not UTF-8 as escapes, such as `\\xff`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class FindingList:
    """A list of findings. Beyond `limit` of one damage and severity they are only counted.

    Many notes thus hide no error of the same damage.
    """

    def __init__(self, files: ReplicaFiles, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._counts: Counter[tuple[str, str]] = Counter()
        self._rows: list[Finding] = []

    def report(self, finding: Finding) -> None:
        """Add a finding, and fill in its place."""
        kind = finding.damage, finding.severity
        self._counts[kind] += 1
        if self._counts[kind] <= self._limit:
            topic, partition = self._files.topic, self._files.partition
            replica = finding.replica or self._files.replica
            self._rows.append(replace(finding, topic=topic, partition=partition, replica=replica))

    def rows(self) -> list[Finding]:
        """Return the findings by file and position, and a final row per kind with its excess."""
        rows = sorted(self._rows, key=lambda row: (row.file, row.position or 0, row.offset or 0))
        for kind, count in self._counts.items():
            if count > self._limit:
                last = next(row for row in reversed(rows) if (row.damage, row.severity) == kind)
                found = f"{count - self._limit} more of {kind[0]}"
                rows.append(replace(last, position=None, offset=None, found=found))
        return rows
