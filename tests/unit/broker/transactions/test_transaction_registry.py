"""Transactions that a broker coordinates, while partitions come and go."""

import pytest

from broker.transactions.transaction import Transaction, new_record
from broker.transactions.transaction_registry import TransactionRegistry
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import LeaderEpoch

E1 = LeaderEpoch(1)


def transaction(transactional_id: str = "id") -> Transaction:
    return Transaction(transactional_id, new_record(1, 0))


def active(*transactions: Transaction) -> tuple[TransactionRegistry, int]:
    registry = TransactionRegistry(lambda: 50)
    partition = registry.leaderships.partition_of("id")
    registry.leaderships.lead(partition, E1)
    registry.activate(partition, transactions)
    return registry, partition


def code_of(registry: TransactionRegistry, transactional_id: str = "id") -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        registry.find(transactional_id)
    return caught.value.code


def test_transactions_are_held_while_their_partition_is_active() -> None:
    held = transaction()
    registry, partition = active(held)
    assert registry.find("id") is held
    assert held in registry
    assert registry.in_partition(partition) == list(registry) == [held]
    assert len(registry) == 1
    assert registry.resign(partition) == [held]
    assert held not in registry
    assert code_of(registry) is ErrorCode.NOT_COORDINATOR
    assert registry.resign(partition) == []


def test_transaction_is_added_and_removed_by_identity() -> None:
    registry, _ = active()
    assert registry.find("id") is None
    held = transaction()
    registry.add(held)
    registry.remove(transaction())
    assert registry.find("id") is held
    registry.remove(held)
    assert registry.find("id") is None


def test_transaction_stays_in_its_partition_although_another_number_of_them_becomes_known() -> None:
    """As when the metadata arrive after the load: until then the configured number counts."""
    held, counts = transaction(), [50]
    registry = TransactionRegistry(lambda: counts[-1])
    registry.leaderships.lead(3, E1)
    registry.activate(3, [held])
    assert registry.leaderships.partition_of("id") != 3, "otherwise the test proves nothing"
    for count in (50, 100):
        counts.append(count)
        assert held in registry
        assert registry.partition_of(held) == 3
        assert registry.get(3, "id") is held
    registry.remove(held)
    assert held not in registry
    assert registry.get(3, "id") is None
    assert registry.resign(3) == []


def test_id_must_not_be_empty() -> None:
    registry, _ = active()
    assert code_of(registry, "") is ErrorCode.INVALID_REQUEST


def test_closed_registry_refuses_every_id() -> None:
    held = transaction()
    registry, _ = active(held)
    assert registry.close() == [held]
    assert code_of(registry) is ErrorCode.COORDINATOR_NOT_AVAILABLE
