"""`ottla export` beside a broker that writes, rolls, compacts and deletes, while it is killed."""

import asyncio
import itertools
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyarrow import parquet

import ottla
from ottla.testing import Broker

SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "50",
}
PLAIN = {"segment.bytes": "20000"}
COMPACTED = PLAIN | {"cleanup.policy": "compact"}
SHORT_LIVED = PLAIN | {"retention.bytes": "1000000"}
BATCH = 50
KEYS = 20
KILLS = 3
TIMEOUT_S = 60


class Abandoned(Exception):  # noqa: N818 - not an error of the program
    """Ends a transaction with an abort."""


def started(logs: Path, target: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "ottla.cli.__main__", "export", str(logs)]
    return subprocess.Popen(
        [*command, "--to", str(target)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


async def write(bootstrap: str, topics: list[str], is_enough: asyncio.Event) -> int:
    """Write to each topic in transactions; return the number of committed records in each."""
    committed = 0
    async with ottla.Producer(bootstrap, transactional_id="writer") as producer:
        for start in itertools.count(0, BATCH):
            if is_enough.is_set():
                return committed
            try:
                async with producer.transaction():
                    for number in range(start, start + BATCH):
                        for topic in topics:
                            await producer.send_and_wait(
                                topic, b"%d" % number + bytes(200), key=b"%d" % (number % KEYS)
                            )
                    if start // BATCH % 3 == 2:
                        raise Abandoned
                committed += BATCH
            except Abandoned:
                pass
    return committed


async def kill_exports(logs: Path, target: Path) -> None:
    """Export again and again; kill every other run at a random time."""
    kills = 0
    while kills < KILLS:
        began = time.monotonic()
        await finish(started(logs, target))
        last_s = time.monotonic() - began
        process = started(logs, target)
        try:
            await asyncio.to_thread(process.wait, random.uniform(last_s / 3, last_s))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += 1
        await finish(process)
    await finish(started(logs, target))


async def finish(process: "subprocess.Popen[bytes]") -> None:
    _, complaints = await asyncio.to_thread(process.communicate, timeout=TIMEOUT_S)
    assert process.returncode in (0, -signal.SIGKILL), complaints


def exported(target: Path, topic: str) -> dict[int, bytes]:
    """Return the value at each offset that a reader of the directory finds."""
    found: dict[int, bytes] = {}
    for path in sorted((target / f"topic={topic}").rglob("*.parquet")):
        for row in parquet.ParquetFile(path).read(columns=["offset", "value"]).to_pylist():
            assert row["offset"] not in found, "a record was exported twice"
            found[row["offset"]] = row["value"]
    return found


async def consumed(bootstrap: str, topic: str) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async with ottla.Consumer(
        bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        await consumer.assign_topics(topic)
        while records := await consumer.fetch_batch(timeout_ms=10_000):
            found |= {record.offset: record.value or b"" for record in records}
    return found


@pytest.mark.soak
async def test_killed_exports_of_a_busy_broker_have_each_record_once(tmp_path: Path) -> None:
    target = tmp_path / "out"
    async with Broker(SETTINGS, directory=tmp_path / "broker") as broker:
        topics = broker.topics()
        names = [
            topics.create(partitions=1, configs=configs)
            for configs in (PLAIN, COMPACTED, SHORT_LIVED)
        ]
        is_enough = asyncio.Event()
        writing = asyncio.create_task(write(broker.bootstrap, names, is_enough))
        await kill_exports(broker.log_dir, target)
        is_enough.set()
        committed = await writing
        plain = await consumed(broker.bootstrap, names[0])
        assert broker.stop() == 0
        await finish(started(broker.log_dir, target))
    assert len(plain) == committed
    assert exported(target, names[0]) == plain
    # All topics have the same records at the same offsets. Compaction and retention remove some of
    # them before or after their export, and never the last record of a key.
    last = {int(value.rstrip(b"\0")) % KEYS: offset for offset, value in sorted(plain.items())}
    for name in names[1:]:
        found = exported(target, name)
        assert found.items() <= plain.items()
        assert found.keys() >= set(last.values())
        assert len(found) > KEYS, "no export ran before the records were removed"
