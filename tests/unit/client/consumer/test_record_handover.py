"""Errors that reads raise: `ottla.client.consumer.record_handover`."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.client.client_config import ConsumerConfig
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.record_handover import RecordHandover
from ottla.client.errors import OttlaError


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
