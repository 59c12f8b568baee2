"""Planted bugs of transactions: each breaks one rule of coordinators, leaders or groups."""

from __future__ import annotations

from typing import Any, Final

from broker.groups.replay import OffsetsReplay
from broker.groups.undecided import UndecidedOffsets
from broker.replication.transaction_guards import TransactionGuards
from broker.transactions.marker_sender import MarkerSender
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_coordinator import TransactionCoordinator
from kafkawire.errors import ErrorCode
from storage.producers.producer_state import ProducerState
from tests.simulation.world.planted import Bug, replaces


@replaces((TransactionCoordinator, "_append"))
def decisions_count_at_once(
    real: Bug, coordinator: Any, partition: int, records: Any, on_stored: Bug
) -> None:
    """A transaction coordinator applies and answers a change before it is replicated."""
    real(coordinator, partition, records, lambda *_: None)
    on_stored(ErrorCode.NONE, 0)


@replaces((TransactionCoordinator, "_activate_when_replicated"))
def unreplicated_decisions(_real: Bug, coordinator: Any, partition: int, loaded: Any) -> None:
    """A transaction coordinator sends the markers of decisions that an election may lose."""
    coordinator._activate(partition, loaded)


@replaces((Transaction, "resume"))
def forgotten_decisions(*_: Any) -> None:
    """A transaction coordinator does not send the markers of decisions that it has loaded."""


@replaces((Transaction, "_check_producer"))
def fenced_producers_continue(_real: Bug, transaction: Transaction, producer: Any) -> Any:
    """A transaction coordinator accepts requests of fenced producers."""
    is_known = producer.producer_id == transaction.record.producer_id
    return None if is_known else ErrorCode.INVALID_PRODUCER_ID_MAPPING


@replaces((TransactionGuards, "check"))
def unverified_transactions(*_: Any) -> None:
    """A leader lets every batch open a transaction."""


@replaces((MarkerSender, "_look_up"), (MarkerSender, "_on_metadata_changed"))
def lost_markers(*_: Any) -> None:
    """Markers for partitions without a leader are not sent once there is one."""


@replaces((ProducerState, "last_stable_offset"))
def undecided_records_are_read(_real: Bug, _producers: Any, high_watermark: Any) -> Any:
    """Readers of committed records get records of open transactions."""
    return high_watermark


@replaces((OffsetsReplay, "_group"))
def lost_undecided_offsets(real: Bug, replay: Any, group_id: str, *rest: Any) -> Any:
    """A group coordinator forgets the undecided offsets that it has loaded."""
    replay._undecided[group_id] = UndecidedOffsets()
    return real(replay, group_id, *rest)


TRANSACTION_MUTANTS: Final = frozenset(
    {
        "decisions_count_at_once",
        "fenced_producers_continue",
        "forgotten_decisions",
        "lost_markers",
        "lost_undecided_offsets",
        "undecided_records_are_read",
        "unreplicated_decisions",
        "unverified_transactions",
    }
)
"""Planted bugs that are looked for in worlds with transactions."""
