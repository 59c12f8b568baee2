"""The beginnings of records that a search has found (decision).

A page shows no more of them, and the records themselves may have megabytes each. The whole sizes
are kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import TimestampType
from ottla.client.record import ConsumerRecord
from ottla.console.records.payload import (
    MAX_PAGE_BYTES,
    MAX_SHOWN_BYTES,
    shortened,
    shown_bytes_of,
)

MAX_SHOWN_HEADERS: Final = 50
MAX_FOUND_BYTES: Final = 4 * MAX_PAGE_BYTES
"""Size of all beginnings that a search keeps. It finds more records than its page will show."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The first bytes of a key, a value or a header, and the size of the whole; or null."""

    data: bytes | None
    size_bytes: int

    def cut(self, max_bytes: int) -> Self:
        """Return at most the first `max_bytes`."""
        if self.data is None or len(self.data) <= max_bytes:
            return self
        return replace(self, data=self.data[:max_bytes])


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    """The beginnings of a record's key, value and first headers."""

    partition: int
    offset: Offset
    timestamp_ms: int
    timestamp_type: TimestampType
    leader_epoch: LeaderEpoch
    key: Excerpt
    value: Excerpt
    headers: tuple[tuple[str, Excerpt], ...]
    """The first `MAX_SHOWN_HEADERS`, with the beginnings of their names."""
    header_count: int

    def excerpts(self) -> Iterator[Excerpt]:
        """Return key, value and headers."""
        yield self.key
        yield self.value
        for _, value in self.headers:
            yield value

    def cut(self, max_bytes: int) -> Self:
        """Return the record with at most the first `max_bytes` of each excerpt."""
        return replace(
            self,
            key=self.key.cut(max_bytes),
            value=self.value.cut(max_bytes),
            headers=tuple((name, value.cut(max_bytes)) for name, value in self.headers),
        )


def found_record(record: ConsumerRecord) -> FoundRecord:
    """Return the beginnings of a record that has bytes as key and value."""
    return FoundRecord(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        timestamp_type=record.timestamp_type,
        leader_epoch=record.leader_epoch,
        key=_excerpt(record.key),
        value=_excerpt(record.value),
        headers=tuple(
            (shortened(name), _excerpt(value)) for name, value in record.headers[:MAX_SHOWN_HEADERS]
        ),
        header_count=len(record.headers),
    )


def fitted(records: Sequence[FoundRecord]) -> list[FoundRecord]:
    """Return the records, cut until all excerpts together have at most `MAX_FOUND_BYTES`."""
    sizes = [len(each.data or b"") for record in records for each in record.excerpts()]
    max_bytes = shown_bytes_of(sizes, MAX_FOUND_BYTES)
    if max_bytes == MAX_SHOWN_BYTES:
        return list(records)
    return [record.cut(max_bytes) for record in records]


def _excerpt(data: bytes | None) -> Excerpt:
    return Excerpt(data, len(data or b"")).cut(MAX_SHOWN_BYTES)
