"""Observations of a list-append workload over transactions. Values only.

Each key is a partition, and each append is a record with a value that occurs once. A transaction
appends to several keys, and reads other keys before it ends (`reads`), as a consumer with
isolation_level="read_committed".
"""

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkawire.ids import TopicPartition

Key = TopicPartition
Value = str
TransactionId = int


class Outcome(enum.Enum):
    """The outcome of a transaction, as its client knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Certainly not committed."""
    UNKNOWN = "unknown"


class Append(NamedTuple):
    """One record of a transaction; `offset` is None if it was not acknowledged."""

    key: Key
    value: Value
    offset: int | None


class Read(NamedTuple):
    """One record that a transaction, or the final read, has read."""

    key: Key
    offset: int
    value: Value


@dataclass(slots=True)
class Transaction:
    """One transaction of a client."""

    number: TransactionId
    process: str
    outcome: Outcome = Outcome.UNKNOWN
    appends: list[Append] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    read_to: dict[Key, int] = field(default_factory=dict)
    """The position of the reader in each key at the end of its reads (exclusive)."""
    read_from: dict[Key, int] = field(default_factory=dict)
    """The position of the reader in each key before its reads."""


@dataclass(slots=True)
class TransactionHistory:
    """All transactions of a run, and the final read of each key to its end."""

    transactions: list[Transaction] = field(default_factory=list)
    final: dict[Key, list[Read]] = field(default_factory=dict)
