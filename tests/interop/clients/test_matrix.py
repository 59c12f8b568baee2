"""Every client reads the records of every client in every codec: all fields, all offsets.

OTTLA_INTEROP_RECORDS sets the number of records: small in the regular check, 100,000 in
`make interop`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from typing import Final

import pytest

from tests.conftest import BrokerProcess
from tests.interop.clients.drivers import READERS, WRITERS
from tests.interop.clients.sample import Received, Sample, plain_samples, samples

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS: Final = int(os.environ.get("OTTLA_INTEROP_RECORDS", "400"))
TIMEOUT_S: Final = 600.0
SEED: Final = 20


def _skip_without(client: str) -> None:
    if client == "kcat" and shutil.which("kcat") is None:
        pytest.skip("kcat is not installed (Debian package: kcat)")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_every_reader_reads_the_records_of_every_writer(
    broker_process: BrokerProcess, writer: str, codec: str
) -> None:
    _skip_without(writer)
    topic = f"{writer}-{codec}"
    make = plain_samples if writer == "kcat" else samples
    written = list(make(RECORDS, SEED))
    started_ms = int(time.time() * 1000)
    address = broker_process.bootstrap
    async with asyncio.timeout(TIMEOUT_S):
        await WRITERS[writer](address, topic, codec, written)
        reference = await READERS["ottla"](address, topic, RECORDS)
        assert_same(written, reference, started_ms)
        for reader, read in READERS.items():
            if reader == "kcat" and shutil.which("kcat") is None:
                continue
            assert await read(address, topic, RECORDS) == reference, f"{reader} read other records"


def assert_same(written: list[Sample], received: list[Received], started_ms: int) -> None:
    """Require the same records, dense offsets, and the given times, or times within the run."""
    ended_ms = int(time.time() * 1000)
    assert [record.offset for record in received] == list(range(len(written)))
    for sample, record in zip(written, received, strict=True):
        assert (record.key, record.value, record.headers) == (
            sample.key,
            sample.value,
            sample.headers,
        )
        if sample.timestamp_ms is None:
            assert started_ms <= record.timestamp_ms <= ended_ms
        else:
            assert record.timestamp_ms == sample.timestamp_ms
