"""The last record of each key of a log: the plain twin of `_columns.KeyTable` (decision).

Invariant: a table never holds more than `key_limit` keys, regardless of its input.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kafkawire.columns_loops import Fields, walk_fields, wrapped_timestamps
from kafkawire.key_hash import hash_key, shard_of
from kafkawire.records_loops import BytesLike

EXPORT_COLUMNS: Final = 6
"""Numbers per key in the results of `export` and `unseen`."""
OFFSET_COLUMN: Final = 2
TIME_COLUMN: Final = 4
TOMBSTONE_COLUMN: Final = 5

_NO_TIMESTAMP: Final = -1
# A fingerprint's highest byte also depends on the record's attributes.
_ATTRIBUTES_SHIFT: Final = 56
_VALUE_BITS: Final = (1 << _ATTRIBUTES_SHIFT) - 1


class KeyLimitError(Exception):
    """There are more keys than a table may hold; split them over several tables by `shard`."""


class Mismatch(IntEnum):
    """The kind of disagreement between a record and the table of a reference log."""

    UNKNOWN_KEY = 1
    OTHER_VALUE = 2
    OLDER = 3
    NEWER = 4
    OTHER_TIME = 5


@dataclass(slots=True)
class _Slot:
    count: int = 0
    offset: int = -1
    time: int = _NO_TIMESTAMP
    fingerprint: int = 0
    record_bytes: int = 0
    is_tombstone: bool = False
    is_seen: bool = False


class KeyTable:
    """The last record of each key of one log, or of one `shard` of its keys.

    `note` fills the table from a reference log; `match` then compares another log with it.
    """

    def __init__(self, key_limit: int, shard: int = 0, shard_count: int = 1) -> None:
        self._slots: dict[tuple[int, int], _Slot] = {}
        self._key_limit = key_limit
        self._shard = shard
        self._shard_count = shard_count
        self.record_count = 0
        self.repeat_count = 0
        self.superseded_bytes = 0

    @property
    def key_count(self) -> int:
        """Number of distinct keys."""
        return len(self._slots)

    def reserve(self, key_count: int) -> None:
        """Make room for as many keys at once, within the limit, instead of growing step by step.

        The compiled twin then adds them in half the time. This one has a dict, which grows anyway.
        """

    def note(
        self,
        data: BytesLike,
        count: int,
        base_offset: int,
        base_timestamp_ms: int,
        append_timestamp_ms: int | None,
        end_offset: int,
        repeat_limit: int = 0,
    ) -> list[tuple[int, int]]:
        """Add the records below `end_offset`; records without a key are skipped.

        Returns up to `repeat_limit` pairs of offsets (earlier, this) of keys with the same hash.

        Raises:
            CorruptBatchError: the bytes are not `count` records.
            KeyLimitError: there are more keys than the table may hold; discard the table.
        """
        repeats: list[tuple[int, int]] = []
        rows = list(walk_fields(data, count))
        times = wrapped_timestamps(rows, base_timestamp_ms, append_timestamp_ms)
        for fields, timestamp_ms in zip(rows, times, strict=True):
            offset = base_offset + fields.offset_delta
            place = self._place(fields.key)
            if place is None or offset >= end_offset:
                continue
            self.record_count += 1
            slot = self._slots.get(place)
            if slot is None:
                if len(self._slots) >= self._key_limit:
                    raise KeyLimitError(f"more than {self._key_limit} keys")
                slot = self._slots[place] = _Slot()
            else:
                self.repeat_count += 1
                self.superseded_bytes += slot.record_bytes
                if len(repeats) < repeat_limit:
                    repeats.append((slot.offset, offset))
            slot.count += 1
            slot.offset = offset
            slot.is_tombstone = fields.value is None
            slot.time = timestamp_ms
            slot.fingerprint = _fingerprint(fields)
            slot.record_bytes = fields.size_bytes
        return repeats

    def match(
        self,
        data: BytesLike,
        count: int,
        base_offset: int,
        base_timestamp_ms: int,
        append_timestamp_ms: int | None,
        start_offset: int,
        end_offset: int,
        cleaned_until: int,
        limit: int,
    ) -> list[tuple[int, int, int]]:
        """Compare the records from `start_offset` on with the table, and mark the keys it holds.

        A key is marked by its last record, or by a newer one at or above `end_offset`, the end of
        the table's log. An earlier record of a key is a mismatch only if the last one is below
        `cleaned_until`: above, compaction has not removed it yet.

        Returns up to `limit` tuples (a `Mismatch`, the offset, the table's offset of the key).

        Raises:
            CorruptBatchError: the bytes are not `count` records.
        """
        mismatches: list[tuple[int, int, int]] = []
        rows = list(walk_fields(data, count))
        times = wrapped_timestamps(rows, base_timestamp_ms, append_timestamp_ms)
        for fields, timestamp_ms in zip(rows, times, strict=True):
            offset = base_offset + fields.offset_delta
            place = self._place(fields.key)
            if place is None or offset < start_offset:
                continue
            slot = self._slots.get(place)
            kind = 0
            if slot is None:
                kind = Mismatch.UNKNOWN_KEY if offset < end_offset else 0
            elif slot.offset < offset:
                if offset >= end_offset:
                    slot.is_seen = True
                else:
                    kind = Mismatch.NEWER
            elif slot.offset > offset:
                kind = Mismatch.OLDER if slot.offset < cleaned_until else 0
            else:
                slot.is_seen = True
                if not _is_same(slot.fingerprint, fields):
                    kind = Mismatch.OTHER_VALUE
                elif slot.time != timestamp_ms:
                    kind = Mismatch.OTHER_TIME
            if kind and len(mismatches) < limit:
                mismatches.append((int(kind), offset, -1 if slot is None else slot.offset))
        return mismatches

    def unseen(self, start_offset: int, end_offset: int) -> bytes:
        """Return the rows of `export`, by offset, of the keys that `match` did not mark.

        Only keys whose offset is in `start_offset..end_offset` (exclusive) are included.
        """
        unseen = (
            (key, slot)
            for key, slot in self._slots.items()
            if not slot.is_seen and start_offset <= slot.offset < end_offset
        )
        return _rows(sorted(unseen, key=lambda each: (each[1].offset, each[0])))

    def is_seen(self, key: bytes) -> bool:
        """Whether `match` has seen the last record of `key`."""
        slot = self._slots.get(hash_key(key))
        return slot is not None and slot.is_seen

    def heaviest(self, limit: int) -> list[tuple[int, int]]:
        """Return the keys with the most records, largest first: (count, last offset)."""
        rows = sorted((-slot.count, slot.offset) for slot in self._slots.values())
        return [(-count, offset) for count, offset in rows[:limit]]

    def histogram(self) -> list[int]:
        """Return the numbers of keys with 1, 2, 3 to 4, 5 to 8, ... records: 32 counts."""
        counts = [0] * 32
        for slot in self._slots.values():
            counts[(slot.count - 1).bit_length()] += 1
        return counts

    def tombstone_count(self) -> int:
        """Return the number of keys that end with a tombstone."""
        return sum(slot.is_tombstone for slot in self._slots.values())

    def export(self) -> bytes:
        """Return the keys for `load`: six 64-bit numbers each, in native byte order.

        These are the key's hash (two numbers), the last record's offset, fingerprint and timestamp,
        and whether it is a tombstone.
        """
        return _rows(self._slots.items())

    def load(self, rows: BytesLike) -> None:
        """Add the keys that another table has exported.

        Raises:
            KeyLimitError: there are more keys than the table may hold.
        """
        numbers = array("q", bytes(rows))
        for start in range(0, len(numbers), EXPORT_COLUMNS):
            first, second, *record = numbers[start : start + EXPORT_COLUMNS]
            if self._shard_count > 1 and shard_of(first, self._shard_count) != self._shard:
                continue
            if len(self._slots) >= self._key_limit:
                raise KeyLimitError(f"more than {self._key_limit} keys")
            slot = self._slots[first, second] = _Slot()
            slot.count = 1
            slot.offset, slot.fingerprint, slot.time, is_tombstone = record
            slot.is_tombstone = bool(is_tombstone)

    def _place(self, key: bytes | None) -> tuple[int, int] | None:
        if key is None:
            return None
        place = hash_key(key)
        if self._shard_count > 1 and shard_of(place[0], self._shard_count) != self._shard:
            return None
        return place


def _rows(slots: Iterable[tuple[tuple[int, int], _Slot]]) -> bytes:
    rows = array("q")
    for (first, second), slot in slots:
        record = slot.offset, slot.fingerprint, slot.time, slot.is_tombstone
        rows.extend((first, second, *record))
    return rows.tobytes()


def _fingerprint(fields: Fields) -> int:
    """Return a hash of the value, the headers and the attributes, as a signed number."""
    print_bits = hash_key(fields.rest)[0] ^ (fields.attributes << _ATTRIBUTES_SHIFT)
    return (print_bits + 2**63) % 2**64 - 2**63


def _is_same(fingerprint: int, fields: Fields) -> bool:
    """Whether the record has this fingerprint; Kafka's cleaner may have cleared its attributes."""
    difference = fingerprint ^ _fingerprint(fields)
    return difference == 0 or (fields.attributes == 0 and difference & _VALUE_BITS == 0)
