"""The producers and markers of two logs are compared, as far as both have the batch."""

from collections.abc import Callable, Sequence

import pytest

from kafkawire.records import ControlType
from logcheck.finding import Damage
from logcheck.producer_batches import ProducerBatches, compare_producers
from tests.unit.logcheck.partition_bytes import Reported
from tests.unit.logcheck.producer_bytes import data, emptied, marker, plain, scanned

LOG = (data(0), marker(1), plain(2), data(3, 1), marker(4, ControlType.COMMIT))
END_OFFSET = 5


def with_batch(number: int, batch: bytearray | None) -> list[bytearray]:
    """Return the log with another batch at `number`, or without that batch."""
    return [*LOG[:number], *([] if batch is None else [batch]), *LOG[number + 1 :]]


def compare(
    found: Sequence[bytearray],
    expected: Sequence[bytearray] = LOG,
    is_damaged: Callable[[int], bool] = lambda _: False,
) -> list[tuple[Damage, int | None, str, str]]:
    """Return the differences of a log from the `expected` one."""
    reported = Reported()
    theirs, ours = ProducerBatches(), ProducerBatches()
    expected_log, log = scanned(expected, theirs), scanned(found, ours)
    compare_producers(theirs, expected_log, ours, log, END_OFFSET, is_damaged, reported)
    return [(each.damage, each.offset, each.expected, each.found) for each in reported.findings]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(LOG, id="equal"),
        pytest.param(with_batch(0, None), id="batch cleaned away"),
        pytest.param(with_batch(3, emptied(data(3, 1))), id="batch emptied"),
        pytest.param(with_batch(1, emptied(marker(1))), id="marker emptied"),
    ],
)
def test_logs_before_and_after_a_cleaning_agree(found: Sequence[bytearray]) -> None:
    assert compare(found) == []
    assert compare(LOG, found) == []


NO_PRODUCER = "a batch without a producer"
ABORT = "producer 7, epoch 0, sequence -1, an abort of coordinator epoch 3"
COMMIT = "producer 7, epoch 0, sequence -1, a commit of coordinator epoch 3"
DATA = "producer 7, epoch 0, sequence 1, bits 0x10 of coordinator epoch -1"
INSERTED = "producer 9, epoch 0, sequence 0, bits 0x10 of coordinator epoch -1"


@pytest.mark.parametrize(
    ("number", "batch", "finding"),
    [
        pytest.param(
            1,
            marker(1, ControlType.COMMIT),
            (Damage.MARKER_DIFFERS, 1, ABORT, COMMIT),
            id="flipped marker",
        ),
        pytest.param(
            2,
            data(2, producer_id=9),
            (Damage.PRODUCER_DIFFERS, 2, NO_PRODUCER, INSERTED),
            id="producer gained",
        ),
        pytest.param(
            3, plain(3), (Damage.PRODUCER_DIFFERS, 3, DATA, NO_PRODUCER), id="producer lost"
        ),
    ],
)
def test_another_producer_or_marker_is_reported(
    number: int, batch: bytearray, finding: tuple[Damage, int, str, str]
) -> None:
    found = with_batch(number, batch)
    assert compare(found) == [finding]
    assert compare(found, is_damaged=lambda offset: offset == number) == []


def test_aborted_transactions_are_those_with_data_and_the_marker_of_an_abort() -> None:
    log = [
        *LOG,
        marker(5),
        data(6, 2, producer_id=8),
        data(7, 0, producer_id=9, is_transactional=False),
        marker(8, producer_id=9),
        data(9, 3, producer_id=8),
        emptied(marker(10, producer_id=8)),
        data(11, 4, producer_id=8),
        data(12, 5, producer_id=8),
        marker(13, producer_id=8),
        data(14, 6, producer_id=8),
    ]
    batches = ProducerBatches()
    scanned(log, batches)
    assert list(batches.aborted()) == [(7, 0, 1), (8, 11, 13)]
