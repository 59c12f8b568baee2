"""A batch encodes its records once and settles each delivery once."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from kafkawire.compression import Codec
from kafkawire.ids import Offset, ProducerId
from kafkawire.records import read_header, read_records
from ottla.client.errors import OttlaError, ProduceError
from ottla.client.producer.producer_batch import (
    Delivery,
    ProducerBatch,
    max_batch_size,
)
from ottla.client.producer.producer_sequences import MAX_SEQUENCE, ProducerIdentity
from ottla.client.record import RecordMetadata, UnsentRecord
from tests.unit.client.client_fakes import T0

IDENTITY = ProducerIdentity(ProducerId(7), 2)


@pytest.fixture
def new_delivery() -> Iterator[Callable[[], Delivery]]:
    """Create futures of an event loop that never runs."""
    loop = asyncio.new_event_loop()
    yield lambda: asyncio.Future(loop=loop)
    loop.close()


def filled(
    new_delivery: Callable[[], Delivery], count: int, codec: Codec = Codec.NONE
) -> ProducerBatch:
    batch = ProducerBatch(T0, codec, reserved_bytes=1_000, created_at_s=1.0)
    for number in range(count):
        batch.append(number, None, b"%d" % number, ())
        batch.deliveries.append(new_delivery())
        batch.timestamps_ms.append(number)
    batch.is_closed = True
    return batch


def test_the_payload_is_built_once(new_delivery: Callable[[], Delivery]) -> None:
    batch = filled(new_delivery, 3, Codec.GZIP)
    assert batch.payload() is batch.payload()
    assert [record.value for record in read_records(batch.payload())] == [b"0", b"1", b"2"]


def test_an_idempotent_producer_numbers_the_batch(
    new_delivery: Callable[[], Delivery],
) -> None:
    batch = filled(new_delivery, 1)
    batch.identify(IDENTITY, base_sequence=40)
    header = read_header(batch.payload())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)


def test_a_batch_can_get_new_numbers(new_delivery: Callable[[], Delivery]) -> None:
    """Only the header of the encoded batch changes, and its checksum stays valid."""
    batch, expected = filled(new_delivery, 3, Codec.GZIP), filled(new_delivery, 3, Codec.GZIP)
    batch.identify(IDENTITY, base_sequence=40)
    batch.payload()
    batch.identity = None
    batch.identify(IDENTITY._replace(epoch=3), base_sequence=0)
    expected.identify(IDENTITY._replace(epoch=3), base_sequence=0)
    assert batch.payload() == expected.payload()


def test_halves_divide_the_numbers_of_the_whole(new_delivery: Callable[[], Delivery]) -> None:
    batch = filled(new_delivery, 5)
    batch.identify(IDENTITY, base_sequence=MAX_SEQUENCE - 1)
    halves = batch.split(now_s=1.0)
    assert [(half.identity, half.base_sequence) for half in halves] == [
        (IDENTITY, MAX_SEQUENCE - 1),
        (IDENTITY, 0),
    ]
    headers = [read_header(half.payload()) for half in halves]
    assert [(each.base_sequence, each.record_count) for each in headers] == [
        (MAX_SEQUENCE - 1, 2),
        (0, 3),
    ]


def test_parts_of_a_batch_that_was_tried_before_may_be_written(
    new_delivery: Callable[[], Delivery],
) -> None:
    batch = filled(new_delivery, 8)
    batch.attempt_count = 1
    assert [part.may_be_written for part in batch.split(now_s=1.0)] == [False, False]
    numbered = filled(new_delivery, 8)
    numbered.identify(IDENTITY, base_sequence=0)
    numbered.attempt_count = 1
    first, second = numbered.split(now_s=1.0)
    assert not first.may_be_written
    assert not second.may_be_written
    first.attempt_count = 2
    quarter, _ = first.split(now_s=1.0)
    quarter.attempt_count = 1
    assert [part.may_be_written for part in quarter.split(now_s=1.0)] == [True, True]


def test_deliveries_get_offsets_and_their_own_times(new_delivery: Callable[[], Delivery]) -> None:
    batch = filled(new_delivery, 3)
    batch.complete(Offset(10), log_append_time_ms=-1)
    assert [each.result() for each in batch.deliveries] == [
        RecordMetadata("t", 0, Offset(10 + number), number) for number in range(3)
    ]
    assert all(type(each.result()) is RecordMetadata for each in batch.deliveries)


def test_the_append_time_of_the_broker_wins(new_delivery: Callable[[], Delivery]) -> None:
    batch = filled(new_delivery, 2)
    batch.complete(Offset(0), log_append_time_ms=99)
    assert [each.result().timestamp_ms for each in batch.deliveries] == [99, 99]


def test_an_unknown_offset_is_unknown_for_all(new_delivery: Callable[[], Delivery]) -> None:
    batch = filled(new_delivery, 2)
    batch.complete(Offset(-1), log_append_time_ms=-1)
    assert [each.result().offset for each in batch.deliveries] == [-1, -1]


def test_cancelled_deliveries_are_skipped(new_delivery: Callable[[], Delivery]) -> None:
    for is_written in (True, False):
        batch = filled(new_delivery, 3)
        batch.deliveries[1].cancel()
        if is_written:
            batch.complete(Offset(0), -1)
        else:
            batch.fail(ProduceError("x"))
        assert [each.done() for each in batch.deliveries] == [True] * 3
        assert batch.deliveries[1].cancelled()


def test_each_record_may_fail_with_its_own_error(new_delivery: Callable[[], Delivery]) -> None:
    batch = filled(new_delivery, 3)
    common, own = ProduceError("common"), ProduceError("own")
    by_index: dict[int, OttlaError] = {1: own}
    batch.fail(common, by_index)
    assert [each.exception() for each in batch.deliveries] == [common, own, common]


def test_done_callbacks_are_called_once(new_delivery: Callable[[], Delivery]) -> None:
    batch = filled(new_delivery, 1)
    heard: list[bool] = []
    batch.on_done.append(lambda: heard.append(batch.is_done))
    batch.complete(Offset(0), -1)
    assert heard == [True]
    with pytest.raises(AssertionError, match="settled once"):
        batch.complete(Offset(0), -1)


@pytest.mark.parametrize("codec", list(Codec))
def test_halves_contain_all_records_in_order(
    new_delivery: Callable[[], Delivery], codec: Codec
) -> None:
    batch = filled(new_delivery, 5, codec)
    first, second = batch.split(now_s=9.0)
    values = [
        [(record.value, record.timestamp_ms) for record in read_records(half.payload())]
        for half in (first, second)
    ]
    assert values == [[(b"0", 0), (b"1", 1)], [(b"2", 2), (b"3", 3), (b"4", 4)]]
    assert first.deliveries + second.deliveries == batch.deliveries
    assert first.reserved_bytes + second.reserved_bytes == batch.reserved_bytes
    assert first.created_at_s == second.created_at_s == batch.created_at_s


@pytest.mark.parametrize("first_done", [0, 1])
def test_a_split_batch_is_done_with_its_last_part(
    new_delivery: Callable[[], Delivery], first_done: int
) -> None:
    """An aborted transaction drops a half that waits while the other one is in flight."""
    batch = filled(new_delivery, 3)
    heard: list[str] = []
    batch.on_done.append(lambda: heard.append("end"))
    first, second = batch.split(now_s=9.0)
    parts = [first, *second.split(now_s=9.0)]
    parts.pop(first_done).fail(ProduceError("dropped"))
    for part in parts:
        assert heard == []
        part.complete(Offset(0), -1)
    assert heard == ["end"]


def test_a_half_with_most_of_the_bytes_can_be_halved_again(
    new_delivery: Callable[[], Delivery],
) -> None:
    """It has more bytes than its half of the reserved memory."""
    batch = ProducerBatch(T0, Codec.NONE, reserved_bytes=1_000, created_at_s=1.0)
    values = [b"", b"", b"", b"x", b"x" * 800, b"x"]
    # Beside a first record that is later, an earlier one needs more bytes than in the whole.
    for timestamp_ms, value in zip([0, 0, 0, 0, 2**40, 0], values, strict=True):
        assert batch.append(timestamp_ms, None, value, ()) >= 0
        batch.deliveries.append(new_delivery())
        batch.timestamps_ms.append(timestamp_ms)
    batch.is_closed = True
    _, second = batch.split(now_s=1.0)
    quarters = second.split(now_s=1.0)
    kept = [[record.value for record in read_records(each.payload())] for each in quarters]
    assert kept == [values[3:4], values[4:]]
    assert sum(each.reserved_bytes for each in quarters) == second.reserved_bytes == 500


@pytest.mark.parametrize(
    "record",
    [
        UnsentRecord("t", b"", None, None, 0, ()),
        UnsentRecord("t", b"x" * 70_000, b"k" * 300, None, 2**40, ()),
        UnsentRecord("t", None, None, None, 0, (("n" * 200, b"v" * 500), ("é", None))),
        UnsentRecord("t", memoryview(b"abcdefgh").cast("I"), bytearray(b"k"), None, 5, ()),
    ],
    ids=["empty", "large", "headers", "views"],
)
def test_the_size_of_a_record_is_bounded_safely(record: UnsentRecord) -> None:
    batch = ProducerBatch(T0, Codec.NONE, reserved_bytes=1_000_000, created_at_s=0.0)
    batch.append(0, None, b"before", ())
    before = batch.filled_bytes
    assert batch.append(record.timestamp_ms, record.key, record.value, record.headers) == 1
    assert batch.filled_bytes - before <= max_batch_size(record) - 61
