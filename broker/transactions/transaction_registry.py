"""The transactional ids that this broker coordinates, by partition of their topic (decision).

These are the ids of partitions that it leads and has loaded. Invariant: an id is held only while
its partition is active here. It stays in the partition that has its records, although another
number of partitions may become known.
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
        self._partitions: dict[Transaction, int] = {}

    def __iter__(self) -> Iterator[Transaction]:
        for held in self._held.values():
            yield from held.values()

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, transaction: Transaction) -> bool:
        """Whether this very object is held."""
        return transaction in self._partitions

    def partition_of(self, transaction: Transaction) -> int:
        """Return the partition of a transaction that is held here."""
        return self._partitions[transaction]

    def in_partition(self, partition: int) -> list[Transaction]:
        """Return the transactions of one partition."""
        return list(self._held.get(partition, {}).values())

    def activate(self, partition: int, transactions: Iterable[Transaction]) -> None:
        """Coordinate the transactions of a partition that was loaded."""
        self.leaderships.activate(partition)
        self._held[partition] = {}
        for each in transactions:
            self._hold(partition, each)

    def resign(self, partition: int) -> list[Transaction]:
        """Give a partition up; return its transactions."""
        self.leaderships.resign(partition)
        lost = list(self._held.pop(partition, {}).values())
        for each in lost:
            del self._partitions[each]
        return lost

    def close(self) -> list[Transaction]:
        """Give all partitions up when the broker stops; return the transactions."""
        self.leaderships.close()
        lost = list(self)
        self._held.clear()
        self._partitions.clear()
        return lost

    def get(self, partition: int, transactional_id: str) -> Transaction | None:
        """Return a transaction that is held in a partition."""
        return self._held.get(partition, {}).get(transactional_id)

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
        self._hold(self.leaderships.partition_of(transaction.transactional_id), transaction)

    def remove(self, transaction: Transaction) -> None:
        """Remove a transaction, if it is held."""
        partition = self._partitions.pop(transaction, None)
        if partition is not None:
            del self._held[partition][transaction.transactional_id]

    def _hold(self, partition: int, transaction: Transaction) -> None:
        self._held[partition][transaction.transactional_id] = transaction
        self._partitions[transaction] = partition
