"""The checker of transactions finds each planted anomaly, and nothing in a sound history."""

import pytest

from kafkawire.ids import TopicPartition
from tests.harness.transaction_checker import Kind, check, violations
from tests.harness.transaction_history import (
    Append,
    Outcome,
    Read,
    Transaction,
    TransactionHistory,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
COMMITTED, ABORTED, UNKNOWN = Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN


def transaction(
    number: int,
    *appends: tuple[TopicPartition, str, int | None],
    reads: list[Read] | None = None,
    outcome: Outcome = COMMITTED,
) -> Transaction:
    return Transaction(number, "p", outcome, [Append(*append) for append in appends], reads or [])


def history(*transactions: Transaction, **final: list[tuple[int, str]]) -> TransactionHistory:
    keys = {"a": A, "b": B}
    return TransactionHistory(
        [*transactions],
        {
            key: [Read(key, offset, value) for offset, value in final.get(name, [])]
            for name, key in keys.items()
        },
    )


def kinds(checked: TransactionHistory) -> list[Kind]:
    return [each.kind for each in check(checked)]


def test_a_sound_history_has_no_anomaly() -> None:
    sound = history(
        transaction(1, (A, "a1", 0), (B, "b1", 0)),
        transaction(2, (A, "a2", 2), outcome=ABORTED),
        transaction(3, (A, "a3", 4), (B, "b3", None), reads=[Read(A, 0, "a1"), Read(B, 0, "b1")]),
        transaction(4, (A, "a4", None), (B, "b4", None), outcome=UNKNOWN),
        transaction(5, (A, "a5", 9), (B, "b5", None), outcome=UNKNOWN),
        a=[(0, "a1"), (4, "a3"), (9, "a5")],
        b=[(0, "b1"), (2, "b3"), (4, "b5")],
    )
    sound.transactions[2].read_from = {A: 0, B: 0}
    sound.transactions[2].read_to = {A: 4, B: 1}
    assert check(sound) == []


PLANTED = {
    Kind.G1A: history(
        transaction(1, (A, "a1", 0), outcome=ABORTED),
        transaction(2, reads=[Read(A, 0, "a1")]),
    ),
    Kind.G1B: history(transaction(1, (A, "a1", 0), (B, "b1", 0), outcome=UNKNOWN), a=[(0, "a1")]),
    Kind.OWN_READ: history(transaction(1, (A, "a1", 0), reads=[Read(A, 0, "a1")]), a=[(0, "a1")]),
    Kind.LOST: history(transaction(1, (A, "a1", 0), (A, "a2", 1)), a=[(0, "a1")]),
    Kind.DUPLICATE: history(transaction(1, (A, "a1", 0)), a=[(0, "a1"), (3, "a1")]),
    Kind.MOVED: history(transaction(1, (A, "a1", 0)), a=[(3, "a1")]),
    Kind.INVENTED: history(a=[(0, "never sent")]),
    Kind.DIVERGED: history(
        transaction(1, (A, "a1", 0)),
        transaction(2, (A, "a2", None), outcome=UNKNOWN),
        transaction(3, reads=[Read(A, 0, "a2")]),
        a=[(0, "a1")],
    ),
    Kind.DISORDERED: history(
        transaction(1, (A, "a1", 0), (A, "a2", 1)),
        transaction(2, reads=[Read(A, 1, "a2"), Read(A, 0, "a1")]),
        a=[(0, "a1"), (1, "a2")],
    ),
    Kind.G1C: history(
        transaction(1, (A, "a1", 0), reads=[Read(B, 0, "b1")]),
        transaction(2, (B, "b1", 0), reads=[Read(A, 0, "a1")]),
        a=[(0, "a1")],
        b=[(0, "b1")],
    ),
    Kind.G0: history(
        transaction(1, (A, "a1", 0), (B, "b1", 1)),
        transaction(2, (A, "a2", 1), (B, "b2", 0)),
        a=[(0, "a1"), (1, "a2")],
        b=[(0, "b2"), (1, "b1")],
    ),
}


@pytest.mark.parametrize("kind", PLANTED, ids=lambda kind: kind.name)
def test_each_planted_anomaly_is_found(kind: Kind) -> None:
    found = kinds(PLANTED[kind])
    assert kind in found
    assert set(found) <= {kind, Kind.DUPLICATE, Kind.MOVED} if kind is not Kind.DUPLICATE else True


def test_a_skipped_record_is_found() -> None:
    reader = transaction(2, reads=[Read(A, 1, "a2")])
    reader.read_from, reader.read_to = {A: 0}, {A: 2}
    skipping = history(transaction(1, (A, "a1", 0), (A, "a2", 1)), reader, a=[(0, "a1"), (1, "a2")])
    assert kinds(skipping) == [Kind.SKIPPED]


def test_interleaved_sends_are_legal() -> None:
    assert violations(PLANTED[Kind.G0]) == []


def test_reads_of_an_aborted_transaction_close_no_circle() -> None:
    circle = PLANTED[Kind.G1C]
    aborted = history(
        circle.transactions[0],
        transaction(2, (B, "b1", 0), reads=[Read(A, 0, "a1")], outcome=ABORTED),
        a=[(0, "a1")],
    )
    assert Kind.G1C not in kinds(aborted)
    assert Kind.G1A in kinds(aborted), "but the first one has read an aborted record"


def test_a_circle_of_many_transactions_is_found_once() -> None:
    count = 5_000
    chain = [
        transaction(number, (A, f"v{number}", number), reads=[Read(A, before, f"v{before}")])
        for number in range(count)
        for before in [(number - 1) % count]
    ]
    found = kinds(history(*chain, a=[(number, f"v{number}") for number in range(count)]))
    assert found == [Kind.G1C]
