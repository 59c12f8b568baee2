"""A search for records, as a request names it, and the records that match (decision)."""

import datetime
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from ottla.client.record import ConsumerRecord
from ottla.console.records.payload import Form

Choice = TypeVar("Choice", bound=enum.StrEnum)

LIMITS: Final = (20, 50, 100, 200)
DEFAULT_LIMIT: Final = 50
MAX_OFFSET: Final = 2**63 - 1
MAX_WANTED_CHARACTERS: Final = 1_000
_SECOND_MS: Final = 1_000


class Start(enum.StrEnum):
    """The place in a log at which a search begins."""

    NEWEST = "newest"
    BEGINNING = "beginning"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """A search in one topic. `partition` is None for all partitions."""

    topic: str
    partition: int | None = None
    start: Start = Start.NEWEST
    at: int = 0
    """The offset, or the time in ms since the epoch."""
    key: bytes = b""
    value: bytes = b""
    limit: int = DEFAULT_LIMIT
    form: Form = Form.AUTO

    def matches(self, record: ConsumerRecord) -> bool:
        """Whether key and value of a record contain the wanted bytes."""
        return (not self.key or (record.key is not None and self.key in record.key)) and (
            not self.value or (record.value is not None and self.value in record.value)
        )

    @property
    def is_filtered(self) -> bool:
        """Whether some records may not match."""
        return bool(self.key or self.value)


def parse_record_query(topic: str, parameters: Mapping[str, str]) -> RecordQuery:
    """Return the search that the parameters of a request name.

    Raises:
        ValueError: a parameter has no valid value; the message is one sentence.
    """
    partition = parameters.get("partition", "")
    start = _one_of(Start, parameters.get("from") or Start.NEWEST, "from")
    at = parameters.get("at", "").strip()
    limit = parameters.get("limit") or str(DEFAULT_LIMIT)
    if limit not in map(str, LIMITS):
        raise ValueError(f"limit must be one of {', '.join(map(str, LIMITS))}, got {limit!r}")
    position = 0
    if start is Start.OFFSET:
        position = _number(at, "an offset")
    elif start is Start.TIME:
        position = parse_time(at)
    return RecordQuery(
        topic=topic,
        partition=None if partition in ("", "all") else _number(partition, "a partition"),
        start=start,
        at=position,
        key=_wanted(parameters, "key"),
        value=_wanted(parameters, "value"),
        limit=int(limit),
        form=_one_of(Form, parameters.get("form") or Form.AUTO, "form"),
    )


def parse_time(text: str) -> int:
    """Return a time in ms since the epoch: ISO 8601, in UTC without a zone, or a number of ms.

    Raises:
        ValueError: the text is neither.
    """
    if text.isascii() and text.isdecimal():
        return _number(text, "a time")
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"a time looks like 2026-01-31T12:00:00, got {text!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0, int(moment.timestamp() * _SECOND_MS))


def _number(text: str, noun: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_OFFSET))
    if not is_number or int(text) > MAX_OFFSET:
        raise ValueError(f"{noun} is a number from 0, got {text!r}")
    return int(text)


def _wanted(parameters: Mapping[str, str], name: str) -> bytes:
    text = parameters.get(name, "")
    if len(text) > MAX_WANTED_CHARACTERS:
        raise ValueError(f"{name} has at most {MAX_WANTED_CHARACTERS} characters, got {len(text)}")
    return text.encode("utf-8", errors="surrogateescape")


def _one_of(kind: type[Choice], text: str, name: str) -> Choice:
    if text not in set(kind):
        raise ValueError(f"{name} must be one of {', '.join(kind)}, got {text!r}")
    return kind(text)
