"""The transactional ids that this broker coordinates, by partition of their topic (decision).

These are the ids of partitions that it leads and has loaded. Invariant: an id is held only while
its partition is active here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from broker.internal_log.leaderships import Leaderships
from broker.transactions.transaction import Transaction
from kafkawire.errors import ApiError, ErrorCode


class TransactionRegistry:
    """Transactions by id, and the partitions that they belong to."""

    def __init__(self, partition_count: Callable[[], int]) -> None:
        """Map ids to `partition_count()` partitions, the actual or planned number."""
        self.leaderships = Leaderships(partition_count)
        self._held: dict[int, dict[str, Transaction]] = {}

    def __iter__(self) -> Iterator[Transaction]:
        for held in self._held.values():
            yield from held.values()

    def __len__(self) -> int:
        return sum(len(held) for held in self._held.values())

    def __contains__(self, transaction: Transaction) -> bool:
        """Whether this very object is held."""
        return self.in_partition_of(transaction).get(transaction.transactional_id) is transaction

    def in_partition_of(self, transaction: Transaction) -> dict[str, Transaction]:
        """Return the transactions of the same partition."""
        partition = self.leaderships.partition_of(transaction.transactional_id)
        return self._held.get(partition, {})

    def in_partition(self, partition: int) -> list[Transaction]:
        """Return the transactions of one partition."""
        return list(self._held.get(partition, {}).values())

    def activate(self, partition: int, transactions: Iterable[Transaction]) -> None:
        """Coordinate the transactions of a partition that was loaded."""
        self.leaderships.activate(partition)
        self._held[partition] = {each.transactional_id: each for each in transactions}

    def resign(self, partition: int) -> list[Transaction]:
        """Give a partition up; return its transactions."""
        self.leaderships.resign(partition)
        return list(self._held.pop(partition, {}).values())

    def close(self) -> list[Transaction]:
        """Give all partitions up when the broker stops; return the transactions."""
        self.leaderships.close()
        lost = list(self)
        self._held.clear()
        return lost

    def find(self, transactional_id: str) -> Transaction | None:
        """Return a transaction, None if there is none with this id.

        Raises:
            ApiError: no id, the broker stops, the partition is loading, or another broker leads it.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        partition = self.leaderships.check(transactional_id)
        return self._held[partition].get(transactional_id)

    def add(self, transaction: Transaction) -> None:
        """Hold a new transaction, whose partition is active."""
        partition = self.leaderships.partition_of(transaction.transactional_id)
        self._held[partition][transaction.transactional_id] = transaction

    def remove(self, transaction: Transaction) -> None:
        """Remove a transaction, if it is held."""
        if transaction in self:
            del self.in_partition_of(transaction)[transaction.transactional_id]
