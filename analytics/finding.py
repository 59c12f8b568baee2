"""Decision: findings, in the one shape that all audits share."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final


class Check(StrEnum):
    """The checks, by their numbers in docs/audits.md."""

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
    """The weight of a finding. A verdict with nothing but notes is clean."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One violation and its place.

    `what` is its kind. `position` is a byte position in `file`, or the line number (from 1) of a
    text file.
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
        """Return the finding as a row of FINDING_SCHEMA."""
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
"""The columns of every table of findings, as a Spark schema string."""


def arrow_schema(pyarrow: Any) -> Any:
    """Return FINDING_SCHEMA as an Arrow schema."""
    types = {"string": pyarrow.string(), "int": pyarrow.int32(), "bigint": pyarrow.int64()}
    columns = (column.split() for column in FINDING_SCHEMA.split(", "))
    return pyarrow.schema([(name, types[kind]) for name, kind in columns])


Report = Callable[[Finding], None]
"""The receiver of a check's findings."""


class Finder:
    """Builder and reporter of one check's findings."""

    def __init__(self, check: Check, report: Report) -> None:
        self._check = check
        self._report = report

    def find(
        self,
        kind: str,
        file: str,
        position: int | None,
        offset: int | None,
        expected: str,
        found: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Report one violation of the kind `kind`."""
        self._report(
            Finding(
                check=self._check,
                what=kind,
                file=file,
                position=position,
                offset=offset,
                expected=expected,
                found=found,
                severity=severity,
            )
        )
