"""The verdict of an audit, as `ottla audit --out` writes it (decision)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAX_SUMMARIES: Final = 500
MAX_COUNT: Final = 2**63
_COUNTS: Final = ("errors", "warnings", "notes", "partitions", "replicas", "records", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictReport:
    """One verdict. `name` is the folder below the folder of all reports."""

    name: str
    audit: str
    is_clean: bool
    counts: Mapping[str, int]
    """errors, warnings, notes, partitions, replicas, records, bytes."""
    by_kind: Mapping[str, int]
    duration_s: float
    written_ms: int
    summaries: tuple[Mapping[str, str], ...]
    columns: tuple[str, ...]
    """The names of all fields of the summaries."""


def parse_verdict(name: str, text: str, written_ms: int) -> VerdictReport:
    """Return the verdict in the text of a file `verdict.json`.

    Raises:
        ValueError: the text is not a verdict; the message is one sentence.
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{name} has a verdict.json that is not JSON") from None
    has_name = isinstance(fields, dict) and isinstance(fields.get("audit"), str)
    if not has_name:
        raise ValueError(f"{name} has a verdict.json without the name of an audit")
    summaries = fields.get("summaries")
    rows = [
        {str(key): _text(value) for key, value in each.items()}
        for each in (summaries if isinstance(summaries, list) else [])[:MAX_SUMMARIES]
        if isinstance(each, dict)
    ]
    kinds = fields.get("by_kind")
    return VerdictReport(
        name=name,
        audit=fields["audit"],
        is_clean=fields.get("clean") is True,
        counts={key: int(_number(fields.get(key))) for key in _COUNTS},
        by_kind={
            str(kind): int(_number(count))
            for kind, count in (kinds if isinstance(kinds, dict) else {}).items()
        },
        duration_s=_number(fields.get("duration_s")),
        written_ms=written_ms,
        summaries=tuple(rows),
        columns=tuple(dict.fromkeys(key for row in rows for key in row)),
    )


def _number(value: object) -> float:
    # The bound refuses the infinities and NaN, which are no counts.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if abs(value) < MAX_COUNT else 0.0


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
