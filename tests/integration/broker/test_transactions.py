"""A log with transactions, served by a real broker over a socket, before and after a kill."""

from pathlib import Path
from typing import Literal

import ottla
from kafkawire.errors import ErrorCode
from kafkawire.ids import Offset, TopicPartition
from kafkawire.messages.fetch import AbortedTransaction
from kafkawire.records import ControlType, build_control_batch, iterate_batches
from storage.config.log_config import LogConfig
from storage.disk.layout import TRANSACTION_INDEX_SUFFIX
from storage.log.log import Log
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import NOW_MS, Wire, batch
from tests.unit.storage.produced_batches import write

TOPIC = "t"
LARGE = b"x" * 100_000
"""Large enough to be sent from file to socket without a copy."""
ABORTED, COMMITTED, OPEN = 7, 8, 9


def write_transactions(directory: Path) -> None:
    """Write a log like a follower of Kafka: an aborted, a committed and an open transaction."""
    log = Log.open(
        directory,
        LogConfig(),
        topic_partition=TopicPartition(TOPIC, 0),
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
        was_clean=True,
        now_ms=NOW_MS,
    )

    def append(data: bytes | bytearray) -> None:
        write(log, data)

    def end(kind: ControlType, producer_id: int) -> None:
        append(
            build_control_batch(
                kind,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS,
            )
        )

    append(batch(b"aborted", LARGE, producer_id=ABORTED, is_transactional=True))
    append(batch(b"committed", producer_id=COMMITTED, is_transactional=True))
    end(ControlType.ABORT, ABORTED)
    end(ControlType.COMMIT, COMMITTED)
    append(batch(b"open", producer_id=OPEN, is_transactional=True))
    append(batch(b"plain"))
    log.upkeep.close()


async def check(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        decided, everything = (wire.fetch(TOPIC, 0, isolation_level=level) for level in (1, 0))
    for data in (decided, everything):
        assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 7, 5)
    assert everything.aborted_transactions is None
    assert decided.aborted_transactions == [AbortedTransaction(producer_id=ABORTED, first_offset=0)]
    assert isinstance(decided.records, memoryview)
    ends = [header.next_offset for header, _ in iterate_batches(decided.records)]
    assert ends == [2, 3, 4, 5]
    promised: dict[Literal["read_committed", "read_uncommitted"], list[bytes]] = {
        "read_committed": [b"committed"],
        "read_uncommitted": [b"aborted", LARGE, b"committed", b"open", b"plain"],
    }
    for level, expected in promised.items():
        async with ottla.Consumer(
            broker.bootstrap, isolation_level=level, auto_offset_reset="earliest"
        ) as consumer:
            places = await consumer.assign_topics(TOPIC)
            end = (await consumer.end_offsets(places))[places[0]]
            assert end == (5 if level == "read_committed" else 7)
            values = []
            while (consumer.position(places[0]) or 0) < end:
                values += [each.value for each in await consumer.fetch_batch(timeout_ms=100)]
        assert values == expected


async def test_readers_get_records_according_to_their_isolation_level(
    tmp_path: Path, start_broker: StartBroker
) -> None:
    directory = tmp_path / "data"
    broker = start_broker(directory)
    with Wire(broker.port) as wire:
        assert wire.create_topic(TOPIC).error_code == ErrorCode.NONE
    assert broker.stop() == 0
    write_transactions(directory / f"{TOPIC}-0")
    index = next(iter((directory / f"{TOPIC}-0").glob(f"*{TRANSACTION_INDEX_SUFFIX}")))
    entries = index.read_bytes()
    for are_indexes_lost in (False, True):
        if are_indexes_lost:
            for path in (directory / f"{TOPIC}-0").glob("*index"):
                path.unlink()
        broker = start_broker(directory)
        await check(broker)
        assert index.read_bytes() == entries
        broker.kill()
