"""Every record is returned once and in order, for any log and any way of reading it."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.ids import Offset, TopicPartition
from kafkawire.messages.fetch import AbortedTransaction
from kafkawire.records import (
    BatchBuilder,
    BatchHeader,
    Codec,
    ControlType,
    build_control_batch,
    iterate_batches,
    read_header,
    write_header,
)
from ottla.client.client_config import ConsumerConfig, IsolationLevel
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.fetched_block import FetchedBlock
from ottla.client.consumer.partition_state import PartitionState

T0 = TopicPartition("t", 0)


@dataclass
class Log:
    """A generated log and the records that a reader must see."""

    data: bytes
    aborted: dict[int, AbortedTransaction]
    """Aborted transactions by the offset of their marker."""
    visible: dict[IsolationLevel, list[int]]
    end_offset: int


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw batches with gaps between and in them, empty batches, and ended transactions."""
    offset = draw(st.integers(0, 5))
    data = b""
    aborted: dict[int, AbortedTransaction] = {}
    visible: dict[IsolationLevel, list[int]] = {"read_uncommitted": [], "read_committed": []}
    for kind in draw(st.lists(st.sampled_from(["plain", "empty", "commit", "abort"]), max_size=8)):
        offset += draw(st.integers(0, 3))
        count = draw(st.integers(1, 4))
        if kind == "plain":
            data += batch(offset, count, draw(st.sampled_from(list(Codec))))
        elif kind == "empty":
            data += emptied(batch(offset, count, Codec.NONE))
        else:
            data += batch(offset, count, Codec.NONE, producer_id=7)
            is_abort = kind == "abort"
            if is_abort:
                aborted[offset + count] = AbortedTransaction(producer_id=7, first_offset=offset)
        offsets = list(range(offset, offset + count))
        if kind != "empty":
            visible["read_uncommitted"] += offsets
        if kind in ("plain", "commit"):
            visible["read_committed"] += offsets
        offset += count
        if kind in ("commit", "abort"):
            data += marker(offset, ControlType.ABORT if kind == "abort" else ControlType.COMMIT)
            offset += 1
    return Log(data, aborted, visible, offset)


def batch(offset: int, count: int, codec: Codec, producer_id: int = -1) -> bytes:
    is_transactional = producer_id >= 0
    builder = BatchBuilder(
        codec,
        producer_id=producer_id,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=0 if is_transactional else -1,
        is_transactional=is_transactional,
    )
    for number in range(count):
        builder.append(1_000, None, b"%d" % (offset + number))
    return bytes(builder.build(offset))


def emptied(full: bytes) -> bytes:
    bare = bytearray(full[:61])
    header: BatchHeader = read_header(full)
    write_header(bare, header._replace(batch_length=61 - 12, record_count=0))
    return bytes(bare)


def marker(offset: int, control_type: ControlType) -> bytes:
    return bytes(
        build_control_batch(
            control_type,
            producer_id=7,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1_000,
            base_offset=offset,
        )
    )


@settings(max_examples=150, deadline=None)
@given(
    logs(),
    st.sampled_from(["read_uncommitted", "read_committed"]),
    st.integers(0, 40),
    st.lists(st.sampled_from(["read", "read", "pause", "refetch", "drop"]), max_size=30),
)
def test_every_record_is_returned_once_and_in_order(
    log: Log, isolation_level: IsolationLevel, start: int, actions: list[str]
) -> None:
    buffer = FetchBuffer(ConsumerConfig(isolation_level=isolation_level))
    state = PartitionState(T0)
    state.jump(Offset(start))
    fetch(buffer, state, log)
    seen: list[int] = []
    for action in [*actions, "resume", *["read"] * 60]:
        if action == "read":
            cursor = buffer.cursor()
            if cursor is not None:
                record = next(cursor.iterator)
                assert record.value == b"%d" % record.offset
                seen.append(record.offset)
                assert buffer.position(state) == cursor.next_offset > record.offset
        elif action == "pause":
            buffer.pause(state)
            assert buffer.cursor() is None
            buffer.resume(state)
        elif action == "drop":
            # As for a paused partition whose room another one needs.
            buffer.pause(state)
            buffer.drop_fetched(state)
            state.rewind()
            buffer.resume(state)
            fetch(buffer, state, log)
        elif action == "refetch":
            position = buffer.position(state)
            assert position is not None
            buffer.drop(state)
            state.jump(position)
            fetch(buffer, state, log)
    assert seen == [offset for offset in log.visible[isolation_level] if offset >= start]
    assert buffer.size_bytes == state.buffered_bytes == 0
    assert buffer.position(state) == max(start, end_of(log))


def end_of(log: Log) -> int:
    headers = [header for header, _ in iterate_batches(log.data)]
    return headers[-1].next_offset if headers else 0


def fetch(buffer: FetchBuffer, state: PartitionState, log: Log) -> None:
    """Deliver all batches from the one that holds the position on, as a broker does."""
    assert state.fetch_offset is not None
    wanted = b"".join(
        bytes(data)
        for header, data in iterate_batches(log.data)
        if header.next_offset > state.fetch_offset
    )
    if wanted:
        aborted = [each for end, each in log.aborted.items() if end >= state.fetch_offset]
        block = FetchedBlock(state, memoryview(wanted), aborted)
        state.on_fetched(block.next_offset, block.last_epoch)
        buffer.add(block)
