"""The fetch buffer hands over records in order, across pauses, jumps and errors."""

import pytest

from kafkawire.ids import Offset
from kafkawire.records import BatchBuilder, Codec
from ottla.client.client_config import ConsumerConfig
from ottla.client.consumer.fetch_buffer import Cursor, FetchBuffer
from ottla.client.consumer.fetched_block import FetchedBlock
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.errors import ConsumeError, CorruptRecordsError
from tests.unit.client.client_fakes import T1, batch_of, state_at

CONFIG = ConsumerConfig(max_partition_fetch_bytes=500, prefetch_max_bytes=1_000)


def buffer_of(*blocks: tuple[PartitionState, bytes]) -> FetchBuffer:
    buffer = FetchBuffer(CONFIG)
    for state, data in blocks:
        fill(buffer, state, data)
    return buffer


def fill(buffer: FetchBuffer, state: PartitionState, data: bytes) -> FetchedBlock:
    """Add a block to the buffer, as the fetcher does."""
    block = FetchedBlock(state, memoryview(data))
    state.on_fetched(block.next_offset, block.last_epoch)
    buffer.add(block)
    return block


def cursor_of(buffer: FetchBuffer) -> Cursor:
    """Return the cursor of a buffer with records."""
    cursor = buffer.cursor()
    assert cursor is not None
    return cursor


def read_all(buffer: FetchBuffer) -> list[tuple[int, int]]:
    """Return (partition, offset) of all remaining records."""
    seen: list[tuple[int, int]] = []
    while (cursor := buffer.cursor()) is not None:
        seen += [(record.partition, record.offset) for record in cursor.iterator]
    return seen


def test_an_empty_buffer_has_nothing() -> None:
    assert FetchBuffer(CONFIG).cursor() is None


def test_blocks_are_read_in_the_order_of_arrival() -> None:
    first, second = state_at(0), state_at(0, T1)
    buffer = buffer_of(
        (first, batch_of(b"a", b"b") + batch_of(b"c", base_offset=2)),
        (second, batch_of(b"d")),
        (first, batch_of(b"e", base_offset=3)),
    )
    assert read_all(buffer) == [(0, 0), (0, 1), (0, 2), (1, 0), (0, 3)]
    assert buffer.size_bytes == first.buffered_bytes == second.buffered_bytes == 0
    assert (buffer.position(first), buffer.position(second)) == (4, 1)


def test_the_last_record_is_in_hand_until_the_next_is_requested() -> None:
    first, second = state_at(0), state_at(0, T1)
    buffer = buffer_of((first, batch_of(b"a", b"b", b"c")), (second, batch_of(b"d")))
    cursor = cursor_of(buffer)
    buffer.hand_out()
    assert buffer.first_in_hand(first) is None
    next(cursor.iterator)
    record = next(cursor.iterator)
    assert buffer.first_in_hand(first) is record
    assert buffer.first_in_hand(second) is None
    buffer.interrupt()
    assert list(cursor.iterator) == []
    assert buffer.first_in_hand(first) is record
    assert buffer.position(first) == 2
    buffer.take_back()
    assert buffer.first_in_hand(first) is None
    assert read_all(buffer) == [(0, 2), (1, 0)]


def test_a_record_stays_in_hand_when_its_partition_fails() -> None:
    state = state_at(0)
    buffer = buffer_of((state, batch_of(b"a", b"b", b"c")))
    cursor = cursor_of(buffer)
    buffer.hand_out()
    record = next(cursor.iterator)
    buffer.fail(state, ConsumeError("refused"), retry_at_s=0.0)
    assert buffer.position(state) == 1
    assert buffer.first_in_hand(state) is record


@pytest.mark.parametrize(
    ("data", "seen", "reason"),
    [
        (batch_of(b"a", b"b"), [], "batch at offset 2 is damaged .the fetched batches end at.* 2"),
        (batch_of(b"a"), [], "batch at offset 2 is damaged .the fetched batches end at offset 1"),
        (
            batch_of(b"c", base_offset=2) + batch_of(b"b", base_offset=1),
            [(0, 2)],
            "batch at offset 3 is damaged .offset 1 follows it",
        ),
        (batch_of(b"b", base_offset=1) + b"x" * 99, [], "batch at offset 2 is damaged"),
    ],
    ids=["no further", "below the position", "backwards", "damage behind a batch below it"],
)
def test_batches_that_do_not_follow_the_position_are_reported(
    data: bytes, seen: list[tuple[int, int]], reason: str
) -> None:
    state = state_at(2)
    buffer = buffer_of((state, data))
    if seen:
        assert [(record.partition, record.offset) for record in cursor_of(buffer).iterator] == seen
    with pytest.raises(CorruptRecordsError, match=reason):
        buffer.cursor()
    assert buffer.position(state) == 2 + len(seen)


def test_a_batch_is_in_hand_from_its_first_record() -> None:
    state = state_at(0)
    buffer = buffer_of((state, batch_of(b"a", b"b", b"c")))
    cursor = cursor_of(buffer)
    buffer.hand_out()
    first, *_ = cursor.iterator
    buffer.hold_from(state, first)
    buffer.interrupt()
    assert buffer.first_in_hand(state) is first
    assert (buffer.position(state), buffer.position_epoch(state)) == (3, first.leader_epoch)
    buffer.drop(state)
    assert buffer.first_in_hand(state) is None


def test_the_position_follows_every_record() -> None:
    state = state_at(0)
    buffer = buffer_of((state, batch_of(b"a", b"b", b"c")))
    assert buffer.position(state) == 0
    cursor = cursor_of(buffer)
    for record in cursor.iterator:
        assert buffer.position(state) == record.offset + 1
    assert buffer.position(state) == 3


def test_a_cursor_left_half_way_is_resumed() -> None:
    buffer = buffer_of((state_at(0), batch_of(b"a", b"b", b"c")))
    cursor = cursor_of(buffer)
    assert next(cursor.iterator).offset == 0
    assert buffer.cursor() is cursor
    assert read_all(buffer) == [(0, 1), (0, 2)]


def test_drop_ends_a_running_iteration() -> None:
    state = state_at(0)
    buffer = buffer_of((state, batch_of(b"a", b"b", b"c")), (state, batch_of(b"d", base_offset=3)))
    cursor = cursor_of(buffer)
    assert next(cursor.iterator).offset == 0
    buffer.drop(state)
    state.jump(Offset(9))
    assert list(cursor.iterator) == []
    assert read_all(buffer) == []
    assert (buffer.position(state), buffer.size_bytes) == (9, 0)


def test_pausing_keeps_the_remaining_records_of_a_batch() -> None:
    paused, other = state_at(0), state_at(0, T1)
    buffer = buffer_of(
        (paused, batch_of(b"a", b"b", b"c") + batch_of(b"d", base_offset=3)),
        (other, batch_of(b"e")),
    )
    cursor = cursor_of(buffer)
    next(cursor.iterator)
    buffer.pause(paused)
    assert list(cursor.iterator) == []
    assert buffer.position(paused) == 1
    assert read_all(buffer) == [(1, 0)]
    fill(buffer, paused, batch_of(b"f", base_offset=4))
    assert read_all(buffer) == []
    buffer.resume(paused)
    assert read_all(buffer) == [(0, 1), (0, 2), (0, 3), (0, 4)]


def test_pausing_twice_and_resuming_an_unpaused_partition_do_no_harm() -> None:
    state = state_at(0)
    buffer = buffer_of((state, batch_of(b"a", b"b")))
    buffer.resume(state)
    for _ in range(2):
        buffer.pause(state)
        assert buffer.cursor() is None
    buffer.resume(state)
    assert read_all(buffer) == [(0, 0), (0, 1)]


def test_a_paused_partition_that_jumps_drops_its_records() -> None:
    state = state_at(0)
    buffer = buffer_of((state, batch_of(b"a")))
    buffer.pause(state)
    assert buffer.cursor() is None
    buffer.drop(state)
    state.jump(Offset(5))
    buffer.resume(state)
    assert read_all(buffer) == []


def test_seeks_without_reads_keep_little_of_the_dropped_data() -> None:
    kept, state = state_at(0, T1), state_at(0)
    buffer = buffer_of((kept, batch_of(b"kept")))
    for _ in range(100):
        fill(buffer, state, batch_of(b"a", b"b"))
        buffer.drop(state)
        state.jump(Offset(0))
    fill(buffer, state, batch_of(b"last"))
    assert len(buffer._blocks) < 10
    assert read_all(buffer) == [(1, 0), (0, 0)]


def test_an_error_is_raised_once_and_later_records_are_fetched_again() -> None:
    state = state_at(0)
    buffer = buffer_of((state, batch_of(b"a", b"b")))
    cursor = cursor_of(buffer)
    next(cursor.iterator)
    buffer.fail(state, ConsumeError("trouble"), retry_at_s=7.0)
    assert buffer.cursor(quietly=True) is None
    with pytest.raises(ConsumeError, match="trouble"):
        buffer.cursor()
    assert buffer.has_room
    assert buffer.cursor() is None
    assert (state.fetch_offset, state.next_offset, state.retry_at_s) == (1, 1, 7.0)


def test_an_error_of_a_paused_partition_waits() -> None:
    state = state_at(0)
    buffer = FetchBuffer(CONFIG)
    buffer.pause(state)
    buffer.fail(state, ConsumeError("trouble"), retry_at_s=0.0)
    assert buffer.cursor() is None
    buffer.resume(state)
    with pytest.raises(ConsumeError):
        buffer.cursor()


def test_an_error_is_forgotten_when_the_partition_jumps() -> None:
    state = state_at(0)
    buffer = FetchBuffer(CONFIG)
    buffer.fail(state, ConsumeError("trouble"), retry_at_s=0.0)
    state.jump(Offset(3))
    assert buffer.cursor() is None


def test_a_damaged_batch_is_reported_after_all_records_before_it() -> None:
    damaged, other = state_at(0), state_at(0, T1)
    bad = bytearray(batch_of(b"bad", base_offset=1))
    bad[-1] ^= 1
    buffer = buffer_of((damaged, batch_of(b"a") + bytes(bad)), (other, batch_of(b"b")))
    seen = []
    for _ in range(2):
        cursor = cursor_of(buffer)
        seen += [(record.partition, record.value) for record in cursor.iterator]
    assert seen == [(0, b"a"), (1, b"b")]
    with pytest.raises(CorruptRecordsError, match="offset 1"):
        buffer.cursor()
    assert buffer.position(damaged) == 1


def test_bytes_that_are_not_a_batch_count_as_damage() -> None:
    for data in (b"\0" * 5, b"\xff" * 80, batch_of(b"a")[:-1]):
        state = state_at(7)
        buffer = buffer_of((state, data))
        with pytest.raises(CorruptRecordsError, match="offset 7"):
            buffer.cursor()


def test_a_truncated_last_batch_is_fetched_again() -> None:
    state = state_at(0)
    buffer = buffer_of((state, batch_of(b"a") + batch_of(b"b", base_offset=1)[:-1]))
    assert read_all(buffer) == [(0, 0)]
    assert state.fetch_offset == 1


def test_reading_reports_new_room() -> None:
    state = state_at(0)
    buffer = buffer_of(
        (state, batch_of(b"x" * 300)),
        (state, batch_of(b"x" * 300, base_offset=1)),
    )
    assert not buffer.has_room
    cursor_of(buffer)
    assert buffer.has_room


@pytest.mark.parametrize(("paused_bytes", "limit_bytes"), [(600, 500), (400, 700)])
def test_reading_reports_new_room_beside_the_data_of_a_paused_partition(
    paused_bytes: int, limit_bytes: int
) -> None:
    config = ConsumerConfig(max_partition_fetch_bytes=limit_bytes, prefetch_max_bytes=1_000)
    buffer, paused, state = FetchBuffer(config), state_at(0), state_at(0, T1)
    fill(buffer, paused, batch_of(b"x" * paused_bytes))
    for offset in range(2):
        fill(buffer, state, batch_of(b"x" * 200, base_offset=offset))
    buffer.pause(paused)
    assert read_all(buffer) == [(1, 0), (1, 1)]
    assert buffer.has_room


def zeros(offset: int, size: int) -> bytes:
    """A small batch of one record that expands to `size` bytes."""
    builder = BatchBuilder(codec=Codec.ZSTD)
    builder.append(0, None, bytes(size))
    return bytes(builder.build(Offset(offset)))


def test_few_batches_are_decoded_at_once_if_they_expand_far() -> None:
    state = state_at(0)
    buffer = buffer_of((state, b"".join(zeros(offset, 400_000) for offset in range(10))))
    held: list[int] = []
    while (cursor := buffer.cursor()) is not None:
        held.append(cursor.left_count)
        list(cursor.iterator)
    assert held == [3, 3, 3, 1]


def test_batches_that_expand_little_share_a_cursor() -> None:
    state = state_at(0)
    buffer = buffer_of((state, b"".join(zeros(offset, 1000) for offset in range(100))))
    cursor = cursor_of(buffer)
    assert cursor.left_count == 100


def shown(cursor: Cursor, count: int) -> list[str]:
    """Show the first `count` records of a cursor with text in place of their values."""
    converted = [each._replace(value=each.value.decode()) for each in cursor.left()[:count]]
    cursor.show(converted)
    return [each.value for each in converted]


def test_shown_records_are_handed_over_and_the_others_wait() -> None:
    state = state_at(0)
    buffer = buffer_of((state, batch_of(b"a", b"b", b"c", b"d")))
    cursor = cursor_of(buffer)
    assert shown(cursor, 3) == ["a", "b", "c"]
    assert [next(cursor.iterator).value for _ in range(2)] == ["a", "b"]
    assert buffer.position(state) == 2
    # After a pause the other records are converted again.
    buffer.pause(state)
    buffer.resume(state)
    assert list(cursor.iterator) == []
    cursor = cursor_of(buffer)
    assert not cursor.is_shown
    assert [record.value for record in cursor.left()] == [b"c", b"d"]
    assert shown(cursor, 1) == ["c"]
    assert len(list(cursor.iterator)) == 1
    assert buffer.position(state) == 3
    assert [record.value for record in cursor_of(buffer).left()] == [b"d"]
    assert read_all(buffer) == [(0, 3)]
    assert buffer.position(state) == 4
