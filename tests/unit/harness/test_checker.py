"""Each kind of anomaly is found, and none in a correct history: `tests.harness.checker`."""

import pytest

from kafkawire.ids import TopicPartition
from tests.harness.checker import Kind, check, duplicate_count
from tests.harness.history import History, Item, Seen, decode

HERE = TopicPartition("orders", 0)
THERE = TopicPartition("orders", 1)
ITEMS = [Item("p", HERE, number) for number in range(4)]
FOREIGN = Item("q", THERE, 0)


def history(acknowledged: dict[int, int | None], read: dict[int, int] | None = None) -> History:
    """Return a history; both mappings are between numbers of items and offsets."""
    return History(
        sent={*ITEMS, FOREIGN},
        acknowledged={ITEMS[number]: offset for number, offset in acknowledged.items()},
        read={HERE: [Seen(at, ITEMS[number].encode()) for at, number in (read or {}).items()]},
    )


def log(*items: Item | bytes) -> list[Seen]:
    values = [item if isinstance(item, bytes) else item.encode() for item in items]
    return [Seen(offset, value) for offset, value in enumerate(values)]


def kinds(observed: History, records: list[Seen]) -> list[Kind]:
    return [anomaly.kind for anomaly in check(observed, {HERE: records})]


def test_correct_history_has_no_anomaly() -> None:
    observed = history({0: 0, 1: 1, 2: None, 3: 3}, read={0: 0, 2: 2})
    assert kinds(observed, log(*ITEMS)) == []


def test_failed_record_may_be_in_the_log_or_not() -> None:
    assert kinds(history({0: 0, 3: 1}), log(ITEMS[0], ITEMS[3])) == []


@pytest.mark.parametrize(
    ("acknowledged", "records", "expected"),
    [
        pytest.param({1: 1}, log(ITEMS[0]), [Kind.LOST], id="lost at the end"),
        pytest.param({0: 0, 2: 1}, log(ITEMS[0], ITEMS[1]), [Kind.LOST], id="overwritten"),
        pytest.param({1: None}, log(ITEMS[0]), [Kind.LOST], id="lost, without an offset"),
        pytest.param({1: 0}, log(ITEMS[0], ITEMS[1]), [Kind.MOVED], id="at another offset"),
        pytest.param({}, log(b"unknown"), [Kind.INVENTED], id="not a value of a producer"),
        pytest.param({}, log(FOREIGN), [Kind.INVENTED], id="of another partition"),
        pytest.param({}, log(Item("p", HERE, 9)), [Kind.INVENTED], id="never sent"),
        pytest.param({}, log(ITEMS[1], ITEMS[0]), [Kind.DISORDERED], id="out of order"),
    ],
)
def test_anomaly_is_found(
    acknowledged: dict[int, int | None], records: list[Seen], expected: list[Kind]
) -> None:
    assert kinds(history(acknowledged), records) == expected


def test_missing_log_has_lost_every_record() -> None:
    assert [each.kind for each in check(history({0: 0}), {})] == [Kind.LOST]


def test_offsets_must_grow() -> None:
    records = [Seen(1, ITEMS[0].encode()), Seen(1, ITEMS[1].encode())]
    assert kinds(history({}), records) == [Kind.UNSTEADY]


def test_read_record_must_stay_in_the_log() -> None:
    observed = history({0: 0}, read={1: 2})
    assert kinds(observed, log(ITEMS[0], ITEMS[1])) == [Kind.CONTRADICTED]


def test_repeated_batch_is_counted_and_no_anomaly() -> None:
    records = log(*ITEMS[:3], *ITEMS[:3], ITEMS[3])
    assert kinds(history({0: 3, 1: 4, 3: 6}), records) == []
    assert duplicate_count({HERE: records}) == 3


def test_unordered_producer_may_write_out_of_order() -> None:
    observed = history({0: 1, 1: 0})
    observed.unordered.add("p")
    assert kinds(observed, log(ITEMS[1], ITEMS[0])) == []
    assert kinds(observed, log(ITEMS[1])) == [Kind.LOST]


def test_anomaly_names_partition_and_record() -> None:
    (anomaly,) = check(history({1: 7}), {HERE: log(ITEMS[0])})
    assert str(anomaly) == (
        "orders-0: an acknowledged record is not in the log: number 1 of p, acknowledged at 7"
    )


def test_value_decodes_to_its_item() -> None:
    assert [decode(item.encode()) for item in ITEMS] == ITEMS
    assert decode(b"a|b|c") is None
