"""Decision: what an audit may find, and the one shape in which every audit reports it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final


class Check(StrEnum):
    """The audits, by the numbers that docs/audits.md explains."""

    BATCHES = "S1"
    OFFSETS = "S2"
    EPOCHS = "S3"
    REPLICAS = "S4"
    OFFSET_INDEX = "S5"
    TIME_INDEX = "S6"
    CHECKPOINTS = "S7"
    UNIQUENESS = "S8"
    PRESERVATION = "S9"
    TOMBSTONES = "S10"
    UNCLEANABLE = "S11"
    PRODUCERS = "S12"
    TRANSACTIONS = "S13"
    COLLISIONS = "S14"
    RETENTION = "S15"
    COST = "S17"


class Severity(StrEnum):
    """Whether a finding spoils the verdict: a note does not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it has to be, and where.

    `position` is a byte of `file`, or the line number (from 1) of a text file.
    """

    check: Check
    what: str
    topic: str = ""
    partition: int = -1
    replica: str = ""
    file: str
    position: int | None = None
    offset: int | None = None
    expected: str
    found: str
    severity: Severity = Severity.ERROR

    def to_row(self) -> dict[str, str | int | None]:
        """The finding under the names of FINDING_SCHEMA."""
        return asdict(self)

    def __str__(self) -> str:
        place = "" if self.position is None else f" at {self.position}"
        offset = "" if self.offset is None else f", offset {self.offset}"
        return (
            f"{self.file}{place}{offset}: {self.check} {self.what}: "
            f"expected {self.expected}, found {self.found}"
        )


FINDING_SCHEMA: Final = (
    "check string, what string, topic string, partition int, replica string, file string, "
    "position bigint, offset bigint, expected string, found string, severity string"
)
"""The columns of every table of findings, as Spark writes a schema."""


def arrow_schema(pyarrow: Any) -> Any:
    """FINDING_SCHEMA in Arrow's types."""
    types = {"string": pyarrow.string(), "int": pyarrow.int32(), "bigint": pyarrow.int64()}
    columns = (column.split() for column in FINDING_SCHEMA.split(", "))
    return pyarrow.schema([(name, types[kind]) for name, kind in columns])


Report = Callable[[Finding], None]
"""Where a check leaves what it found."""


class Finder:
    """Reports the findings of one check."""

    def __init__(self, check: Check, report: Report) -> None:
        self._check = check
        self._report = report

    def find(
        self,
        what: str,
        file: str,
        position: int | None,
        offset: int | None,
        expected: str,
        found: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Report one thing that is not as it has to be."""
        self._report(
            Finding(
                check=self._check,
                what=what,
                file=file,
                position=position,
                offset=offset,
                expected=expected,
                found=found,
                severity=severity,
            )
        )
