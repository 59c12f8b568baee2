"""A live tail skips records of a topic that is too fast to show."""

from typing import cast

import pytest

from kafkawire.ids import TopicPartition
from kafkawire.units import MIB
from ottla import Consumer
from ottla.client.record import ConsumerRecord
from ottla.console.web.record_routes import TAIL_BATCH_RECORDS, TailPace
from tests.unit.console.stand_ins import ORDERS_0, ORDERS_1
from tests.unit.console.test_reader import record


class LaggingConsumer:
    """Has this many more records to read in one of two partitions."""

    def __init__(self, lag: int) -> None:
        self._lags = {ORDERS_0: None, ORDERS_1: lag}

    def assignment(self) -> list[TopicPartition]:
        return list(self._lags)

    def lag(self, partition: TopicPartition) -> int | None:
        return self._lags[partition]


SMALL, LARGE = record(0), record(0)._replace(value=bytes(2 * MIB))


@pytest.mark.parametrize(
    ("batch", "lag", "expected"),
    [
        ([SMALL] * 10, 100, False),
        ([SMALL] * TAIL_BATCH_RECORDS, 0, True),
        ([LARGE], 1, True),
        ([LARGE], 0, False),
    ],
    ids=["small", "many", "large with others behind it", "large"],
)
def test_a_tail_skips_after_two_batches_of_too_many_records_or_bytes(
    batch: list[ConsumerRecord], lag: int, expected: bool
) -> None:
    pace, consumer = TailPace(), cast(Consumer, LaggingConsumer(lag))
    assert [pace.has_to_skip(consumer, batch) for _ in range(3)] == [False, expected, expected]


@pytest.mark.parametrize(
    ("burst", "rest"),
    [([LARGE] * 2, [LARGE]), ([SMALL] * TAIL_BATCH_RECORDS, [SMALL])],
    ids=["large", "many"],
)
def test_a_tail_shows_the_whole_burst_of_a_slow_topic(
    burst: list[ConsumerRecord], rest: list[ConsumerRecord]
) -> None:
    pace = TailPace()
    lagging, caught_up = (cast(Consumer, LaggingConsumer(lag)) for lag in (1, 0))
    for _ in range(3):
        assert not pace.has_to_skip(lagging, burst)
        assert not pace.has_to_skip(caught_up, rest)
