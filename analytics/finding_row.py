"""The findings of an audit as rows of a table (decision)."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from logcheck.finding import Finding, Severity

FINDING_SCHEMA: Final = (
    "check string, what string, topic string, partition int, replica string, file string, "
    "position bigint, offset bigint, expected string, found string, severity string, more bigint"
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


def distinct_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each row once; rows that stand for more findings are added up."""
    distinct: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        named = tuple(value for name, value in row.items() if name != "more")
        first = distinct.setdefault(named, row)
        if first is not row and row["more"]:
            # Each shard has counted its own findings beyond the limit.
            first["more"] += row["more"] + 1
    return list(distinct.values())


def by_severity(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the errors first, otherwise in the same order."""
    ranks = {severity: rank for rank, severity in enumerate(Severity)}
    return sorted(rows, key=lambda row: ranks[row["severity"]])
