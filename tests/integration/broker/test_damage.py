"""Files damaged from outside: the broker keeps running and reports the damage."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.errors import ErrorCode
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire, batch

MAGIC_POSITION = 16
EXIT_FOUND = 3
BATCHES_PER_SEGMENT = 4
VALUE = b"v" * 1_000
SEGMENT_BYTES = "5000"


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def create(wire: Wire, partitions: int = 1) -> None:
    wire.create_topic(
        "t",
        partitions=partitions,
        segment_bytes=SEGMENT_BYTES,
        retention_ms="-1",
        index_interval_bytes="0",
    )


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker with a topic of three closed segments and an active one."""
    broker = start_broker()
    with Wire(broker.port) as wire:
        create(wire)
        wire.create_topic("other")
        for _ in range(3 * BATCHES_PER_SEGMENT + 1):
            wire.produce("t", batch(VALUE))
    return broker


def closed_segment(broker: BrokerProcess) -> Path:
    """The second segment."""
    return sorted((broker.data_dir / "t-0").glob("*.log"))[1]


def check_the_rest(wire: Wire, damaged: int, end: int) -> None:
    """Check that all other batches can be read, and that the log accepts appends."""
    for offset in set(range(end)) - {damaged}:
        found = wire.fetch("t", offset, max_bytes=1)
        assert found.error_code == ErrorCode.NONE, offset
        assert found.records, offset
    assert wire.produce("t", batch(VALUE)).base_offset == end
    assert wire.produce("other", batch(VALUE)).error_code == ErrorCode.NONE


def verify(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli", "logs", "verify", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_flipped_bit_in_a_header_affects_only_its_batch(broker: BrokerProcess) -> None:
    path = closed_segment(broker)
    damaged = int(path.stem) + 1
    size = path.stat().st_size // BATCHES_PER_SEGMENT
    flip(path, size + MAGIC_POSITION)
    with Wire(broker.port) as wire:
        for _ in range(2):
            assert wire.fetch("t", damaged).error_code == ErrorCode.CORRUPT_MESSAGE
        check_the_rest(wire, damaged, 3 * BATCHES_PER_SEGMENT + 1)
    assert broker.stop() == 0
    named = [event for event in broker.events if event["event"] == "log.damaged"]
    assert [event["path"] for event in named] == [str(path)]
    assert broker.wait_for_event("broker.stopping")["damaged_segments"] == 1
    found = verify(broker.data_dir)
    assert found.returncode == EXIT_FOUND
    assert str(path) in found.stdout


def test_a_flipped_bit_in_a_record_is_detected_by_readers(broker: BrokerProcess) -> None:
    """Bytes go from file to socket, so the reader must verify the checksum, like in Kafka."""
    path = closed_segment(broker)
    damaged = int(path.stem)
    flip(path, 500)
    with Wire(broker.port) as wire:
        check_the_rest(wire, damaged, 3 * BATCHES_PER_SEGMENT + 1)
    found = verify(broker.data_dir)
    assert found.returncode == EXIT_FOUND
    assert f"bad_crc at 0, offset {damaged}" in found.stdout
    # A recovery truncates nothing below the recovery point, either.
    broker.kill()


def test_a_vanished_log_dir_affects_only_its_partitions(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = start_broker(overrides={"log.dirs": f"{first},{second}"})
    with Wire(broker.port) as wire:
        create(wire, partitions=2)
        # The first batch of an epoch also writes to the file of leader epochs.
        wire.produce("t", batch(VALUE), partition=0)
        first.rename(tmp_path / "away")
        codes = [wire.produce("t", batch(VALUE), partition=0).error_code for _ in range(10)]
        # Open segments still work, but the next one cannot be created.
        assert codes[0] == ErrorCode.NONE
        assert codes[-1] == ErrorCode.KAFKA_STORAGE_ERROR
        broker.wait_for_event("log_dir.offline", where=lambda event: event["path"] == str(first))
        for _ in range(10):
            assert wire.produce("t", batch(VALUE), partition=1).error_code == ErrorCode.NONE
    assert broker.stop() == 0
    assert broker.wait_for_event("broker.stopping")["offline_log_dirs"] == 1
