"""Errors that reads raise, and their memory: `ottla.client.consumer.record_handover`."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.records import BatchBuilder, Codec
from kafkawire.units import MIB
from ottla.client.client_config import ConsumerConfig
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.fetched_block import FetchedBlock
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.record_handover import BATCH_EXPANDED_BYTES, RecordHandover
from ottla.client.errors import OttlaError
from tests.unit.client.client_fakes import state_at


class Refused:
    """A membership with an error that lasts."""

    def __init__(self) -> None:
        self.error: OttlaError | None = OttlaError("refused")


def refused_reader() -> RecordHandover:
    buffer = FetchBuffer(ConsumerConfig())
    reader = RecordHandover(buffer)
    gate = ReadGate(asyncio.get_running_loop(), buffer.interrupt)
    reader.begin(gate, lambda: None, Refused())
    return reader


READS = [
    pytest.param(lambda reader: reader.cursor(), id="iteration"),
    pytest.param(lambda reader: reader.batch(1, 0), id="batch"),
]
Read = Callable[[RecordHandover], Awaitable[object]]


@pytest.mark.parametrize("read", READS)
async def test_an_error_that_lasts_leaves_time_for_other_tasks(read: Read) -> None:
    reader, has_run = refused_reader(), asyncio.Event()
    asyncio.get_running_loop().call_soon(has_run.set)
    with pytest.raises(OttlaError, match="refused"):
        await read(reader)
    assert has_run.is_set()


@pytest.mark.parametrize("read", READS)
async def test_the_traceback_of_an_error_that_lasts_does_not_grow(read: Read) -> None:
    reader = refused_reader()
    depths = []
    for _ in range(3):
        with pytest.raises(OttlaError) as caught:
            await read(reader)
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1


async def test_a_batch_of_records_ends_when_enough_bytes_are_expanded() -> None:
    """A few KiB that were fetched may expand to gigabytes."""
    buffer, state, count = FetchBuffer(ConsumerConfig()), state_at(0), 16
    for offset in range(count):
        builder = BatchBuilder(Codec.ZSTD)
        builder.append(0, None, bytes(MIB))
        block = FetchedBlock(state, memoryview(builder.build(offset)))
        state.on_fetched(block.next_offset, block.last_epoch)
        buffer.add(block)
    reader = RecordHandover(buffer)
    gate = ReadGate(asyncio.get_running_loop(), buffer.interrupt)
    reader.begin(gate, lambda: None, None)
    offsets: list[int] = []
    while len(offsets) < count:
        records = await reader.batch(1_000, 0)
        assert records
        assert sum(len(each.value) for each in records) <= BATCH_EXPANDED_BYTES + MIB
        offsets += [each.offset for each in records]
    assert offsets == list(range(count))
