"""A broker killed with -9 under load loses no acknowledged record and serves no torn one.

The kill leaves the page cache intact, so that every acknowledged record must survive, fsynced or
not. docs/operations.md describes the effect of a power loss on an unreplicated broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Final

import pytest

import ottla
from kafkawire.ids import TopicPartition
from ottla.client.errors import OttlaError
from tests.conftest import BrokerProcess, StartBroker

TOPIC: Final = "crash"
PARTITION: Final = TopicPartition(TOPIC, 0)
LOAD_S: Final = (0.15, 0.5)
TIMEOUT_S: Final = 30.0
SMALL_SEGMENTS: Final = {
    "log.segment.bytes": str(1024 * 1024),
    "log.index.interval.bytes": "1024",
    "log.flush.interval.messages": "500",
}


async def load(
    address: str, acknowledged: dict[int, bytes], dice: random.Random, going: asyncio.Event
) -> None:
    """Produce until cancelled; record the acknowledged offsets, and when the load has started."""

    def on_delivery(delivery: asyncio.Future[ottla.RecordMetadata], value: bytes) -> None:
        if not delivery.cancelled() and delivery.exception() is None:
            acknowledged[delivery.result().offset] = value
            going.set()

    async with ottla.Producer(address, acks=1, linger_ms=1, compression=None) as producer:
        while True:
            value = dice.randbytes(dice.randint(1, 2000))
            delivery = await producer.send(TOPIC, value, partition=0)
            delivery.add_done_callback(lambda d, v=value: on_delivery(d, v))  # type: ignore[misc]
            await asyncio.sleep(0)


async def load_and_kill(
    broker: BrokerProcess, acknowledged: dict[int, bytes], dice: random.Random
) -> None:
    """Run the load for a moment, kill the broker, end the load."""
    going = asyncio.Event()
    loading = asyncio.create_task(load(broker.bootstrap, acknowledged, dice, going))
    async with asyncio.timeout(TIMEOUT_S):
        await going.wait()
        await asyncio.sleep(dice.uniform(*LOAD_S))
    await asyncio.to_thread(broker.kill)
    loading.cancel()
    with contextlib.suppress(asyncio.CancelledError, OttlaError):
        await loading


async def read_all(address: str) -> dict[int, bytes]:
    """Read the partition from beginning to end; the consumer checks every CRC."""
    values: dict[int, bytes] = {}
    async with ottla.Consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        end = (await consumer.end_offsets([PARTITION]))[PARTITION]
        async with asyncio.timeout(TIMEOUT_S):
            while len(values) < end:
                for record in await consumer.fetch_batch(timeout_ms=1000):
                    assert record.value is not None
                    values[record.offset] = bytes(record.value)
    assert sorted(values) == list(range(end)), "offsets are dense"
    return values


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.soak)])
async def test_kills_under_load_lose_no_acknowledged_record(
    start_broker: StartBroker, tmp_path: Path, kills: int
) -> None:
    dice = random.Random(11)
    data_dir = tmp_path / "data"
    acknowledged: dict[int, bytes] = {}
    for _ in range(kills):
        broker = start_broker(data_dir, SMALL_SEGMENTS)
        await load_and_kill(broker, acknowledged, dice)
        broker = start_broker(data_dir, SMALL_SEGMENTS)
        stored = await read_all(broker.bootstrap)
        lost = {offset for offset, value in acknowledged.items() if stored.get(offset) != value}
        assert not lost, f"acknowledged and lost or changed: {sorted(lost)[:10]}"
        await asyncio.to_thread(broker.kill)
    segments = list((data_dir / f"{TOPIC}-0").glob("*.log"))
    assert len(segments) > 1, "no segment was rolled, so the run proved little"


@pytest.mark.parametrize("damage", ["deleted", "flipped", "cut"])
async def test_damaged_indexes_are_rebuilt_to_the_same_bytes(
    start_broker: StartBroker, tmp_path: Path, damage: str
) -> None:
    data_dir = tmp_path / "data"
    broker = start_broker(data_dir, SMALL_SEGMENTS)
    await load_and_kill(broker, {}, random.Random(3))
    broker = start_broker(data_dir, SMALL_SEGMENTS)
    before = await read_all(broker.bootstrap)
    assert broker.stop() == 0
    folder = data_dir / f"{TOPIC}-0"
    indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
    healthy = {path: path.read_bytes() for path in indexes}
    assert any(healthy.values()), "no index has an entry, so nothing would be proved"
    for path in indexes:
        damage_file(path, damage)
    # An index has no checksum, and is checked only after an unclean stop, like in Kafka.
    (data_dir / ".kafka_cleanshutdown").unlink()
    (data_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    broker = start_broker(data_dir, SMALL_SEGMENTS)
    assert await read_all(broker.bootstrap) == before
    assert broker.stop() == 0
    assert {path: path.read_bytes() for path in indexes} == healthy


def damage_file(path: Path, damage: str) -> None:
    """Delete `path`, flip a bit in its middle, or truncate it within an entry."""
    data = bytearray(path.read_bytes())
    if damage == "deleted" or not data:
        path.unlink()
    elif damage == "flipped":
        data[len(data) // 2] ^= 0x40
        path.write_bytes(data)
    else:
        path.write_bytes(data[: len(data) - 3])
