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
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire, batch

DISK_MIB = 12
RESERVE_BYTES = 1024 * 1024
CHUNK = os.urandom(250_000)
MANY = 1_000
STOP_TIMEOUT_S = 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(path)]
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


def fill_disk(wire: Wire, topic: str) -> int:
    """Produce until the disk is full; return the number of acknowledged records."""
    for count in range(MANY):
        answer = wire.produce(topic, batch(CHUNK))
        if answer.error_code != ErrorCode.NONE:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert answer.error_message is not None
            assert "is full" in answer.error_message
            return count
    raise AssertionError("the disk never filled up")


def first_response_of_a_leader(wire: Wire, topic: str) -> int:
    """Produce until the partition has a leader; return the error code of its response."""
    for _ in range(MANY):
        answer = wire.produce(topic, batch(b"x"))
        if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return answer.error_code
    raise AssertionError("the partition was never led")


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
