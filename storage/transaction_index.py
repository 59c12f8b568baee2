"""The index of aborted transactions of a segment (decision: values and their bytes).

Bytes on disk: one entry per transaction, in the order of their markers: version 2 (it is 0) |
producer id 8 | first offset 8 | last offset 8 (the marker's) | last stable offset 8.
Source: Kafka's AbortedTxn.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from kafkawire.ids import Offset

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """A transaction that was given up; offsets are inclusive, but for the last stable one."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


def read_aborted(data: bytes) -> list[AbortedTransaction]:
    """Return the transactions in the bytes of an index; what is cut short at the end is left out.

    Raises:
        ValueError: entries of another version.
    """
    whole = len(data) // _ENTRY.size * _ENTRY.size
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
    """Return those with an offset in `start_offset`..`end_offset` (exclusive)."""
    return [
        each
        for each in transactions
        if each.last_offset >= start_offset and each.first_offset < end_offset
    ]
