"""Repeated, skipped and late batches of idempotent producers: `tests.harness.sequences`."""

import struct

import pytest

from tests.harness.sequences import sequence_faults

LAST_SEQUENCE = 2**31 - 1


def batch(
    sequence: int, count: int = 5, *, producer: int = 7, epoch: int = 0, attributes: int = 0
) -> bytes:
    head = bytes(21) + struct.pack(">h", attributes)
    return head.ljust(43, b"\0") + struct.pack(">qhii", producer, epoch, sequence, count)


def faults(*batches: bytes) -> list[str]:
    return sequence_faults({10 * number: each for number, each in enumerate(batches)})


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([batch(0), batch(5), batch(10)], id="in order"),
        pytest.param([batch(0), batch(0, producer=8), batch(5)], id="two producers"),
        pytest.param([batch(0), batch(0, epoch=1), batch(5, epoch=1)], id="a new epoch"),
        pytest.param([batch(0), batch(-1, producer=-1), batch(5)], id="others between"),
        pytest.param([batch(0), batch(-1, attributes=0x20), batch(5)], id="a marker between"),
    ],
)
def test_valid_log_of_idempotent_producers_has_no_fault(batches: list[bytes]) -> None:
    assert faults(*batches) == []


@pytest.mark.parametrize(
    ("batches", "fault"),
    [
        pytest.param(
            [batch(0), batch(0)],
            "producer 7 has sequence 0 of epoch 0 at 10, expected 5 of epoch 0",
            id="repeated",
        ),
        pytest.param(
            [batch(20), batch(25)],
            "producer 7 has sequence 20 of epoch 0 at 0, expected 0 of epoch 0",
            id="a missing beginning",
        ),
        pytest.param(
            [batch(0), batch(10)],
            "producer 7 has sequence 10 of epoch 0 at 10, expected 5 of epoch 0",
            id="skipped",
        ),
        pytest.param(
            [batch(0, epoch=1), batch(5)],
            "producer 7 has sequence 5 of epoch 0 at 10, expected 0 of epoch 1",
            id="an earlier epoch",
        ),
        pytest.param(
            [batch(0), batch(5, epoch=1)],
            "producer 7 has sequence 5 of epoch 1 at 10, expected 0 of epoch 1",
            id="an epoch that does not begin at 0",
        ),
    ],
)
def test_fault_is_found(batches: list[bytes], fault: str) -> None:
    assert faults(*batches) == [fault]


def test_producer_may_begin_after_records_it_gave_up() -> None:
    log = dict(enumerate([batch(20), batch(25)]))
    assert sequence_faults(log, given_up=20) == []
    assert len(sequence_faults(log, given_up=19)) == 1


def test_sequences_wrap_around_after_the_last() -> None:
    begun = batch(0, LAST_SEQUENCE - 1)
    assert faults(begun, batch(LAST_SEQUENCE - 1, 5), batch(3)) == []
