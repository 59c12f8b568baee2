"""The aborted transactions of a segment (decision).

Bytes on disk: one entry per transaction, in the order of their markers: version 2 (it is 0) |
producer id 8 | first offset 8 | last offset 8 (the marker's) | last stable offset 8.
Source: Kafka's AbortedTxn.
"""

from bisect import bisect_left
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from kafkawire.ids import Offset

_ENTRY: Final = Struct(">hqqqq")
_LAST_OFFSET: Final = Struct(">18xq")
_VERSION: Final = 0
ENTRY_BYTES: Final = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """An aborted transaction; offsets are inclusive, except `last_stable_offset`."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


def read_aborted(data: bytes | bytearray) -> list[AbortedTransaction]:
    """Return the transactions in the bytes of an index, without an incomplete last entry.

    Raises:
        ValueError: an entry has another version.
    """
    whole = len(data) // ENTRY_BYTES * ENTRY_BYTES
    found = []
    for version, producer_id, first, last, stable in _ENTRY.iter_unpack(data[:whole]):
        if version > _VERSION:
            raise ValueError(f"a transaction index of version {version}")
        found.append(AbortedTransaction(producer_id, Offset(first), Offset(last), Offset(stable)))
    return found


def write_aborted(transactions: Iterable[AbortedTransaction]) -> bytes:
    """Return the bytes of an index."""
    return b"".join(_ENTRY.pack(_VERSION, *each) for each in transactions)


def overlapping(
    transactions: Iterable[AbortedTransaction], start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """Return the transactions with an offset in `start_offset`..`end_offset` (exclusive)."""
    return [
        each
        for each in transactions
        if each.last_offset >= start_offset and each.first_offset < end_offset
    ]


def check_index(data: bytes, base_offset: Offset) -> None:
    """Check that `data` can be the index of the segment at `base_offset`.

    Raises:
        ValueError: it cannot be; the text has the reason.
    """
    if len(data) % ENTRY_BYTES:
        raise ValueError(f"{len(data)} bytes are not whole entries of {ENTRY_BYTES}")
    previous = base_offset - 1
    for each in read_aborted(data):
        if not previous < each.last_offset or each.first_offset > each.last_offset:
            raise ValueError(
                f"a transaction at {each.first_offset}..{each.last_offset} after one that ended at "
                f"{previous}, in the segment at {base_offset}"
            )
        previous = each.last_offset


def size_below(data: bytes | bytearray, offset: int) -> int:
    """Return the size of the entries of an index with markers below `offset`."""
    return _slot(data, offset) * ENTRY_BYTES


def find_aborted(
    data: bytes | bytearray, start_offset: int, end_offset: int, found: list[AbortedTransaction]
) -> bool:
    """Add to `found` the transactions that may have offsets in `start_offset`..`end_offset`.

    Returns True if no later entry, in this index or that of a later segment, can match.
    """
    for slot in range(_slot(data, start_offset), len(data) // ENTRY_BYTES):
        _, *fields = _ENTRY.unpack_from(data, slot * ENTRY_BYTES)
        each = AbortedTransaction(*fields)
        if each.first_offset < end_offset:
            found.append(each)
        # Every transaction that ended later was still open then, or began later.
        if each.last_stable_offset >= end_offset:
            return True
    return False


def _slot(data: bytes | bytearray, offset: int) -> int:
    """Return the slot of the first entry whose marker is at `offset` or above."""

    def last_offset(slot: int) -> int:
        last: int = _LAST_OFFSET.unpack_from(data, slot * ENTRY_BYTES)[0]
        return last

    return bisect_left(range(len(data) // ENTRY_BYTES), offset, key=last_offset)
