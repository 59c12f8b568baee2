"""A disk that fills up under a running broker: a small file system in memory.

These tests are skipped without the privileges to mount it.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from storage.disk.space_reserve import FILE_NAME
from tests.conftest import STOP_TIMEOUT_S, BrokerProcess, StartBroker
from tests.integration.broker.test_compaction import alter, fetch_all
from tests.integration.broker.wire import Wire, batch
from tests.waiting import until_sync

DISK_MIB = 12
RESERVE_BYTES = 1024 * 1024
LARGE_RESERVE_BYTES = 5 * 1024 * 1024
"""Enough for a segment of the coordinator's log."""
CHUNK = os.urandom(250_000)
MANY = 1_000


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    size_mib = getattr(request, "param", DISK_MIB)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


WITHOUT_LOG = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def start(start_broker: StartBroker, disk: Path) -> BrokerProcess:
    overrides = {"log.dir.reserve.bytes": str(RESERVE_BYTES), "log.initial.task.delay.ms": "0"}
    return start_broker(disk / "data", overrides=overrides)


def fill_disk(wire: Wire, topic: str, partition: int = 0) -> int:
    """Produce until the disk is full; return the number of acknowledged records."""
    for count in range(MANY):
        answer = wire.produce(topic, batch(CHUNK), partition=partition)
        if answer.error_code != ErrorCode.NONE:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert answer.error_message is not None
            assert "is full" in answer.error_message
            return count
    raise AssertionError("the disk never filled up")


def first_response_of_a_leader(wire: Wire, topic: str) -> int:
    """Produce until the partition has a leader; return the error code of its response."""
    codes: list[int] = []

    def is_led() -> bool:
        codes.append(wire.produce(topic, batch(b"x")).error_code)
        return codes[-1] != ErrorCode.NOT_LEADER_OR_FOLLOWER

    until_sync(is_led, "a leader")
    return codes[-1]


def test_a_full_disk_refuses_writes_until_there_is_space(
    start_broker: StartBroker, small_disk: Path
) -> None:
    broker = start(start_broker, small_disk)
    with Wire(broker.port) as wire:
        wire.create_topic("other", segment_bytes="1000000", retention_ms="-1")
        wire.create_topic("t", segment_bytes="1000000", retention_ms="-1")
        for _ in range(8):
            wire.produce("other", batch(CHUNK))
        count = fill_disk(wire, "t")
        assert count > 4
        broker.wait_for_event("log_dir.full")
        assert wire.produce("other", batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for offset in range(count):
            assert wire.fetch("t", offset).error_code == ErrorCode.NONE
        assert wire.fetch("t", 0).high_watermark == count
        # The topic exists in the cluster; its log waits until there is space.
        wire.create_topic("new")
        assert wire.produce("new", batch(b"x")).error_code in WITHOUT_LOG

        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="other")], timeout_ms=10_000)
        answer = wire.ask(ApiKey.DELETE_TOPICS, 6, gone, DeleteTopicsResponse)
        assert answer.responses[0].error_code == ErrorCode.NONE
        # No other action is needed: the deletion frees space, and appends succeed again.
        broker.wait_for_event("log_dir.resumed")
        assert wire.produce("t", batch(b"again")).base_offset == count
        # The log that could not be created before is created now.
        broker.wait_for_event("log.created", where=lambda event: event["partition"] == "new-0")
        assert first_response_of_a_leader(wire, "new") == ErrorCode.NONE
        assert wire.create_topic("newer").error_code == ErrorCode.NONE
        assert wire.produce("newer", batch(b"x")).error_code == ErrorCode.NONE
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(STOP_TIMEOUT_S) == 0


def test_a_broker_that_dies_on_a_full_disk_recovers_on_it(
    start_broker: StartBroker, small_disk: Path
) -> None:
    others = small_disk / "other"
    others.write_bytes(bytes(4 * RESERVE_BYTES))
    broker = start(start_broker, small_disk)
    with Wire(broker.port) as wire:
        wire.create_topic("t", segment_bytes="1000000", retention_ms="-1")
        count = fill_disk(wire, "t")
    broker.kill()
    broker = start(start_broker, small_disk)
    with Wire(broker.port) as wire:
        assert wire.fetch("t", 0).high_watermark == count
        broker.wait_for_event("log_dir.full")
        assert wire.produce("t", batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert wire.fetch("t", count - 1).error_code == ErrorCode.NONE
        others.unlink()
        broker.wait_for_event("log_dir.resumed")
        assert wire.produce("t", batch(b"x")).base_offset == count


@pytest.mark.parametrize("small_disk", [20], indirect=True)
def test_a_broker_that_embeds_its_coordinator_starts_on_a_full_disk(
    start_broker: StartBroker, small_disk: Path
) -> None:
    reserve = {"log.dir.reserve.bytes": str(LARGE_RESERVE_BYTES)}
    broker = start_broker(small_disk / "data", overrides=reserve)
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        assert wire.produce("t", batch(b"x")).error_code == ErrorCode.NONE
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(STOP_TIMEOUT_S) == 0
    others = small_disk / "other"
    leave_free(others, 100_000)
    broker = start_broker(small_disk / "data", overrides=reserve)
    with Wire(broker.port) as wire:
        assert wire.fetch("t", 0).high_watermark == 1
        broker.wait_for_event("log_dir.full")
        others.unlink()
        broker.wait_for_event("log_dir.resumed")
        assert wire.produce("t", batch(b"y")).base_offset == 1
    assert (small_disk / "data" / FILE_NAME).stat().st_size == LARGE_RESERVE_BYTES


CLEANED_SEGMENT_BYTES = 2_000_000
VALUE_BYTES = 50_000
ROOM_BYTES = 2_000_000
"""Enough for the reserve and some appends, too little for the cleaned segment."""
CLEANING_TIMEOUT_S = 180
"""Cleaners have a low priority, and other tests and their processes share the machine."""


def leave_free(ballast: Path, size_bytes: int) -> None:
    """Occupy the disk of `ballast` except for `size_bytes`."""
    with ballast.open("ab") as file:
        found = os.statvfs(ballast)
        more_bytes = found.f_bavail * found.f_frsize - size_bytes
        os.posix_fallocate(file.fileno(), file.tell(), more_bytes)


def has_event(broker: BrokerProcess, name: str) -> bool:
    return any(event["event"] == name for event in broker.events)


def on_disk(disk: Path, topic: str) -> int:
    """Return the partition of `topic` that lies on `disk`; another disk has the other one."""
    return 0 if (disk / f"{topic}-0").is_dir() else 1


def fill_compacted_topic(wire: Wire, topic: str, partition: int) -> dict[bytes, bytes]:
    """Produce a segment, of which a cleaning keeps three quarters; return the last values."""
    values: dict[bytes, bytes] = {}
    for number in range(CLEANED_SEGMENT_BYTES // VALUE_BYTES):
        key, value = b"key-%d" % (number % 30), os.urandom(VALUE_BYTES)
        answer = wire.produce(topic, batch(value, keys=[key]), partition=partition)
        assert answer.error_code == ErrorCode.NONE
        values[key] = value
    return values


def check_live_files(*directories: Path) -> None:
    for result in verify_directories(directories, VerifyOptions(with_records=True)):
        assert result.findings == []


def test_a_cleaning_that_does_not_fit_on_the_disk_succeeds_once_there_is_space(
    start_broker: StartBroker, small_disk: Path, tmp_path: Path
) -> None:
    small, large = small_disk / "data", tmp_path / "large"
    overrides = {
        "log.dirs": f"{small},{large}",
        "log.dir.reserve.bytes": str(RESERVE_BYTES),
        "log.initial.task.delay.ms": "0",
        "log.cleaner.backoff.ms": "500",
    }
    broker = start_broker(overrides=overrides)
    with Wire(broker.port) as wire:
        wire.create_topic("other", partitions=2)
        wire.create_topic(
            "t",
            partitions=2,
            cleanup_policy="compact",
            segment_bytes=str(CLEANED_SEGMENT_BYTES),
            # Not cleaned yet.
            min_cleanable_dirty_ratio="1.0",
        )
        compacted, other = on_disk(small, "t"), on_disk(small, "other")
        expected = fill_compacted_topic(wire, "t", compacted)

        def check() -> None:
            check_live_files(small, large)
            found = fetch_all(wire, "t", compacted)
            assert {key: value for _, key, value in found} == expected

        ballast = small_disk / "ballast"
        leave_free(ballast, ROOM_BYTES)
        alter(wire, "t", "min.cleanable.dirty.ratio", "0.01")
        broker.wait_for_event("cleaning.started")
        for partition in (other, 1 - other):
            check_live_files(small, large)
            answer = wire.produce("other", batch(bytes(1_000)), partition=partition)
            assert answer.error_code == ErrorCode.NONE
        broker.wait_for_event("cleaning.failed", CLEANING_TIMEOUT_S)
        check()
        # The cleaning left enough space for appends, also on its own disk.
        assert not has_event(broker, "log_dir.full")

        # The cleaner tries again, until the disk is full.
        fill_disk(wire, "other", other)
        check()
        answer = wire.produce("other", batch(b"x"), partition=1 - other)
        assert answer.error_code == ErrorCode.NONE

        ballast.unlink()
        broker.wait_for_event("log_dir.resumed")
        check()
        broker.wait_for_event("cleaning.finished", CLEANING_TIMEOUT_S)
        check()
        answer = wire.produce("t", batch(b"x", keys=[b"last"]), partition=compacted)
        assert answer.error_code == ErrorCode.NONE
    assert [each for each in small_disk.rglob("*") if each.suffix in (".cleaned", ".swap")] == []
    assert broker.stop() == 0
    check_live_files(small, large)
