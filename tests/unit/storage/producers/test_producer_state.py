"""The checks of a leader for idempotent producers, case by case."""

import pytest

from kafkawire.ids import Offset
from kafkawire.records import ControlType, EndTransactionMarker, read_header
from storage.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    StorageError,
)
from storage.producers.producer_entry import RETAINED_BATCHES, ProducerEntry, WrittenBatch
from storage.producers.producer_state import (
    EndedTransaction,
    LastRecord,
    NewMarker,
    ProducerState,
)
from tests.unit.storage.logs import NOW_MS
from tests.unit.storage.produced_batches import MAX_SEQUENCE, header_of, marker, produced

PRODUCER = 7


def state_after(*batches: tuple[int, int, int]) -> ProducerState:
    """Return the state after adjacent batches of (epoch, base sequence, count) from offset 0."""
    state, offset = ProducerState(), 0
    for epoch, base_sequence, count in batches:
        offset += count
        header = header_of(PRODUCER, base_sequence, count, epoch=epoch)
        state.on_append(header, Offset(offset - 1), NOW_MS + offset)
    return state


def entry_of(state: ProducerState) -> ProducerEntry:
    entry = state.get(PRODUCER)
    assert entry is not None
    return entry


FIVE = [(0, 2 * number, 2) for number in range(5)]
SIX = [(0, 2 * number, 2) for number in range(6)]


@pytest.mark.parametrize(
    ("written", "sent", "base_offset"),
    [
        pytest.param([], (0, 0, 2), None, id="first of all"),
        pytest.param([], (3, 17, 2), None, id="unknown producer, any sequence"),
        pytest.param([(0, 0, 3)], (0, 3, 1), None, id="next"),
        pytest.param([(0, 0, 3)], (1, 0, 1), None, id="new epoch from 0"),
        pytest.param([(0, 5, 2)], (0, 7, 2), None, id="continues after unknown batches"),
        pytest.param([(0, MAX_SEQUENCE, 1)], (0, 0, 1), None, id="wrapped"),
        pytest.param([(0, MAX_SEQUENCE - 1, 4)], (0, 2, 1), None, id="wrapped within a batch"),
        pytest.param([(0, 0, 3)], (0, 0, 3), 0, id="last again"),
        pytest.param(FIVE, (0, 0, 2), 0, id="the oldest of five again"),
        pytest.param(SIX, (0, 2, 2), 2, id="the oldest that is kept"),
        pytest.param([(0, MAX_SEQUENCE - 1, 4)], (0, MAX_SEQUENCE - 1, 4), 0, id="wrapped, again"),
    ],
)
def test_batch_is_new_or_a_duplicate_with_known_offsets(
    written: list[tuple[int, int, int]], sent: tuple[int, int, int], base_offset: int | None
) -> None:
    epoch, base_sequence, count = sent
    header = header_of(PRODUCER, base_sequence, count, epoch=epoch)
    found = state_after(*written).find_duplicate(header)
    assert (found.base_offset if found else None) == base_offset
    assert found is None or found.base_sequence == base_sequence


@pytest.mark.parametrize(
    ("written", "sent", "error"),
    [
        pytest.param([(0, 0, 3)], (0, 4, 1), OutOfOrderSequenceError, id="gap"),
        pytest.param([(0, 0, 3)], (0, 0, 2), OutOfOrderSequenceError, id="part of the last"),
        pytest.param([(0, 0, 3)], (0, 1, 2), OutOfOrderSequenceError, id="end of the last"),
        pytest.param([(0, 0, 3)], (0, 2, 2), OutOfOrderSequenceError, id="overlap"),
        pytest.param(SIX, (0, 0, 2), OutOfOrderSequenceError, id="older than five"),
        pytest.param([(1, 0, 3)], (2, 3, 1), OutOfOrderSequenceError, id="new epoch, not from 0"),
        pytest.param([(0, MAX_SEQUENCE, 1)], (0, 1, 1), OutOfOrderSequenceError, id="gap at wrap"),
        pytest.param([(2, 0, 3)], (1, 3, 1), InvalidProducerEpochError, id="older epoch"),
        pytest.param([(1, 0, 1), (2, 0, 1)], (1, 0, 1), InvalidProducerEpochError, id="its batch"),
    ],
)
def test_a_batch_is_refused(
    written: list[tuple[int, int, int]], sent: tuple[int, int, int], error: type[StorageError]
) -> None:
    epoch, base_sequence, count = sent
    with pytest.raises(error, match=f"producer {PRODUCER} "):
        state_after(*written).find_duplicate(header_of(PRODUCER, base_sequence, count, epoch=epoch))


def test_a_new_producer_needs_an_epoch() -> None:
    with pytest.raises(InvalidProducerEpochError, match="writes with epoch -5"):
        ProducerState().find_duplicate(header_of(PRODUCER, 0)._replace(producer_epoch=-5))
    without_id = header_of(PRODUCER, 0)._replace(producer_id=-1, producer_epoch=-5)
    assert ProducerState().find_duplicate(without_id) is None


def test_duplicate_has_the_timestamp_of_the_first_append() -> None:
    found = state_after((0, 0, 3), (0, 3, 1)).find_duplicate(header_of(PRODUCER, 0, 3))
    assert found == WrittenBatch(
        last_sequence=2, last_offset=2, offset_delta=2, timestamp_ms=NOW_MS + 3
    )


def test_batches_without_a_producer_change_no_state() -> None:
    state = ProducerState()
    state.replay(header_of(PRODUCER, 0)._replace(producer_id=-1))
    assert len(state) == 0


def test_replayed_batches_are_not_checked() -> None:
    """A follower, or a start, accepts all batches that the leader has accepted."""
    state = state_after((1, 0, 3))
    state.replay(header_of(PRODUCER, 9, 1, epoch=0)._replace(base_offset=3))
    entry = entry_of(state)
    assert (entry.epoch, entry.next_sequence, len(entry.batches)) == (0, 10, 1)


def test_batch_without_sequences_updates_the_producer() -> None:
    """A transaction coordinator commits offsets in such batches, without a sequence to check."""
    state = ProducerState()
    state.replay(header_of(PRODUCER, 0)._replace(base_sequence=-1))
    entry = entry_of(state)
    assert entry.last_batch == WrittenBatch(-1, 0, 0, NOW_MS)
    assert state.find_duplicate(header_of(PRODUCER, 0)) is None


def test_idle_producers_expire() -> None:
    state = state_after((0, 0, 1))
    other = read_header(produced(8, 0, is_transactional=True))
    state.on_append(other, Offset(1), NOW_MS)
    assert state.expire(NOW_MS + 1_000, 1_000) == 0
    assert state.expire(NOW_MS + 1_001, 1_000) == 1
    assert [entry.producer_id for entry in state] == [8], "it has a transaction open"
    assert state.find_duplicate(header_of(PRODUCER, 55)) is None


def test_truncation_drops_the_newest_batches() -> None:
    state = state_after((0, 0, 2), (0, 2, 2), (0, 4, 2))
    other = header_of(8, 0)
    state.on_append(other._replace(base_sequence=0), Offset(1), NOW_MS)
    assert state.truncate(Offset(3))
    entry = entry_of(state)
    assert (entry.next_sequence, entry.last_timestamp_ms) == (2, NOW_MS + 2)
    assert [batch.last_offset for batch in entry.batches] == [1]
    assert state.find_duplicate(header_of(PRODUCER, 2, 2)) is None


def test_another_state_of_the_same_batches_restores_the_older_ones() -> None:
    known, entry = state_after(*FIVE), ProducerEntry(PRODUCER)
    entry.add(0, entry_of(known).batches[-1])
    loaded = ProducerState()
    loaded.load([entry])
    loaded.recall_from(known)
    assert entry_of(loaded).batches == entry_of(known).batches
    # Other epochs, batches and producers are from another history.
    for batches in ([(1, 0, 2)], FIVE[:2], []):
        other = state_after(*batches)
        other.recall_from(known)
        assert [each.batches for each in other] == [each.batches for each in state_after(*batches)]


def test_truncation_of_all_batches_of_a_producer_needs_the_log() -> None:
    """An older epoch may apply then, or none."""
    state = state_after((0, 0, 2), (1, 0, 2))
    assert not state.truncate(Offset(2))
    entry = entry_of(state)
    assert len(entry.batches) == 1, "nothing has changed"


@pytest.mark.parametrize("is_over", [False, True])
def test_truncation_after_transactions_needs_the_log(is_over: bool) -> None:
    state = state_after((0, 0, 2), (0, 2, 2))
    transactional(state, 8, 4)
    if is_over:
        end(state, 8, 5)
    assert not state.truncate(Offset(3))


def test_truncation_drops_ended_transactions_of_expired_producers() -> None:
    state = ProducerState()
    for offset in (0, 2):
        transactional(state, 8, offset)
        end(state, 8, offset + 1)
    state.expire(NOW_MS * 2, 1)
    assert state.truncate(Offset(2))
    assert state.ended_below(Offset(9)) == [EndedTransaction(Offset(0), Offset(1))]
    assert state.last_stable_offset(Offset(2)) == 2


def test_a_truncated_marker_of_an_expired_producer_makes_the_state_be_rebuilt() -> None:
    state = ProducerState()
    transactional(state, 8, 0)
    end(state, 8, 1)
    state.expire(NOW_MS * 2, 1)
    assert not state.truncate(Offset(1))
    assert state.truncate(Offset(0))


def test_duplicate_ended_transactions_are_tolerated() -> None:
    state = ProducerState()
    transactional(state, 8, 3)
    end(state, 8, 5)
    state.add_ended([EndedTransaction(Offset(1), Offset(4)), *state.ended_below(Offset(6))])
    assert [state.last_stable_offset(Offset(mark)) for mark in (4, 5, 6)] == [1, 3, 6]


def test_last_records_returns_the_newest_record_of_each_producer() -> None:
    state = state_after((0, 0, 3), (0, 3, 2))
    control = read_header(marker(9, 5, epoch=4))
    state.replay(control, EndTransactionMarker(ControlType.COMMIT, 0))
    assert state.last_records() == {
        PRODUCER: LastRecord(Offset(4), 0),
        9: LastRecord(None, 4),
    }


def test_load_replaces_all_state() -> None:
    state = state_after((0, 0, 3))
    entry = ProducerEntry(8)
    entry.add(2, WrittenBatch(4, 10, 0, NOW_MS))
    entry.transaction_first_offset = Offset(9)
    state.load([entry])
    assert [each.producer_id for each in state] == [8]
    assert state.last_stable_offset(Offset(20)) == 9


# Transactions


def transactional(state: ProducerState, producer_id: int, offset: int, sequence: int = 0) -> None:
    header = read_header(produced(producer_id, sequence, is_transactional=True))
    state.replay(header._replace(base_offset=offset))


def end(state: ProducerState, producer_id: int, offset: int, epoch: int = 0) -> None:
    state.replay(
        read_header(marker(producer_id, offset, epoch=epoch)),
        EndTransactionMarker(ControlType.ABORT, 3),
    )


def test_last_stable_offset_is_the_start_of_the_first_open_transaction() -> None:
    state = ProducerState()
    assert state.last_stable_offset(Offset(50)) == 50
    transactional(state, 1, 10)
    transactional(state, 2, 11)
    transactional(state, 1, 12, sequence=1)
    assert state.last_stable_offset(Offset(50)) == 10
    end(state, 1, 13)
    assert state.last_stable_offset(Offset(50)) == 11
    end(state, 2, 14)
    assert state.last_stable_offset(Offset(14)) == 11, "its end is not committed yet"
    assert state.last_stable_offset(Offset(15)) == 15


def test_marker_ends_only_the_transaction_of_its_producer() -> None:
    state = ProducerState()
    transactional(state, PRODUCER, 0)
    with pytest.raises(InvalidTransactionStateError, match="since offset 0"):
        state.find_duplicate(header_of(PRODUCER, 1))
    inside = read_header(produced(PRODUCER, 1, is_transactional=True))
    assert state.find_duplicate(inside) is None


def test_the_end_of_a_transaction_may_carry_a_new_epoch() -> None:
    """The coordinator uses this to fence the producer of the ended transaction."""
    state = ProducerState()
    transactional(state, PRODUCER, 0)
    end(state, PRODUCER, 1, epoch=1)
    entry = entry_of(state)
    assert (entry.epoch, entry.coordinator_epoch, entry.last_batch) == (1, 3, None)
    with pytest.raises(InvalidProducerEpochError):
        state.find_duplicate(header_of(PRODUCER, 1))
    assert state.find_duplicate(header_of(PRODUCER, 0, epoch=1)) is None


@pytest.mark.parametrize(
    ("sent", "refusals"),
    [
        pytest.param([(1, 3)], [None], id="the same epochs again"),
        pytest.param([(2, 4)], [None], id="newer epochs"),
        pytest.param([(0, 4)], [InvalidProducerEpochError], id="older producer epoch"),
        pytest.param([(1, 2)], [CoordinatorFencedError], id="older coordinator epoch"),
        pytest.param([(0, 2)], [InvalidProducerEpochError], id="both older"),
        pytest.param(
            [(2, 5), (1, 5), (2, 4), (2, 5)],
            [None, InvalidProducerEpochError, CoordinatorFencedError, None],
            id="markers before count",
        ),
        pytest.param(
            [(0, 9), (1, 3)], [InvalidProducerEpochError, None], id="refused markers do not count"
        ),
    ],
)
def test_markers_of_replaced_producers_and_coordinators_are_refused(
    sent: list[tuple[int, int]], refusals: list[type[StorageError] | None]
) -> None:
    state = ProducerState()
    transactional(state, PRODUCER, 0)
    end(state, PRODUCER, 1, epoch=1)
    markers = [NewMarker(PRODUCER, epoch, ControlType.ABORT, of) for epoch, of in sent]
    found = state.check_markers(markers)
    assert [None if each is None else type(each) for each in found] == refusals


def test_marker_of_an_unknown_producer_is_admitted() -> None:
    """Its data may have been deleted, or its writes may have been lost."""
    marker = NewMarker(PRODUCER, 0, ControlType.COMMIT, 0)
    assert ProducerState().check_markers([marker]) == [None]


def test_batches_of_coordinators_repeat_sequences_but_not_epochs() -> None:
    state = state_after((1, 0, 1))
    state.check_unsequenced(header_of(PRODUCER, 0, epoch=1))
    state.check_unsequenced(header_of(PRODUCER, 5, epoch=2))
    state.check_unsequenced(header_of(PRODUCER + 1, 5))
    with pytest.raises(InvalidProducerEpochError, match="epoch 1 has written since"):
        state.check_unsequenced(header_of(PRODUCER, 1))


def test_transaction_belongs_to_the_epoch_that_began_it() -> None:
    state = ProducerState()
    assert not state.has_transaction(PRODUCER, 0)
    transactional(state, PRODUCER, 0)
    assert state.has_transaction(PRODUCER, 0)
    assert not state.has_transaction(PRODUCER, 1)
    end(state, PRODUCER, 1)
    assert not state.has_transaction(PRODUCER, 0)


def test_transaction_is_late_if_its_last_record_is_old() -> None:
    state = ProducerState()
    assert not state.has_transaction_idle_since(NOW_MS + 1)
    transactional(state, PRODUCER, 0)
    assert state.open_transaction_count == 1
    last_ms = entry_of(state).last_timestamp_ms
    assert not state.has_transaction_idle_since(last_ms)
    assert state.has_transaction_idle_since(last_ms + 1)
    end(state, PRODUCER, 1)
    assert not state.has_transaction_idle_since(last_ms + 1)
    assert state.open_transaction_count == 0


def test_empty_control_batch_changes_nothing() -> None:
    """Compaction leaves an empty batch of a marker without data."""
    state = ProducerState()
    transactional(state, PRODUCER, 0)
    state.replay(read_header(marker(PRODUCER, 1)), None)
    assert state.last_stable_offset(Offset(9)) == 0


def test_entry_keeps_at_most_as_many_batches_as_may_be_in_flight() -> None:
    entry = ProducerEntry(PRODUCER)
    for number in range(RETAINED_BATCHES + 1):
        entry.add(0, WrittenBatch(number, number, 0, NOW_MS))
    assert [batch.last_offset for batch in entry.batches] == [1, 2, 3, 4, 5]
    assert entry.next_sequence == RETAINED_BATCHES + 1
