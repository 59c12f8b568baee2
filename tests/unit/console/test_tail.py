"""A live tail skips records of a topic that is too fast to show."""

from typing import cast

import pytest

from kafkawire.ids import TopicPartition
from kafkawire.units import MIB
from ottla import Consumer
from ottla.client.record import ConsumerRecord
from ottla.console.web.record_routes import TAIL_BATCH_RECORDS, is_behind
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
def test_a_tail_is_behind_after_too_many_records_or_bytes(
    batch: list[ConsumerRecord], lag: int, expected: bool
) -> None:
    assert is_behind(cast(Consumer, LaggingConsumer(lag)), batch) is expected
