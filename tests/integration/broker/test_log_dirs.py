"""Replicas that move between the log dirs of a running broker."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.config.config_entry import ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafkawire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire, batch

COUNT = 40
CHUNK = bytes(250_000)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / "first", tmp_path / "second"]


@pytest.fixture
def start(start_broker: StartBroker, paths: list[Path]) -> Callable[[], BrokerProcess]:
    return lambda: start_broker(overrides={"log.dirs": ",".join(map(str, paths))})


def move(wire: Wire, path: Path | str, topic: str = "t", version: int = 2) -> int:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=topics)])
    key = ApiKey.ALTER_REPLICA_LOG_DIRS
    response = wire.ask(key, version, request, AlterReplicaLogDirsResponse)
    [result] = response.results
    assert result.topic_name == topic
    return result.partitions[0].error_code


def places(wire: Wire) -> dict[str, bool]:
    """Return the log dirs of the partition, with whether each holds the future replica."""
    request = DescribeLogDirsRequest(topics=None)
    response = wire.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, request, DescribeLogDirsResponse)
    return {
        Path(result.log_dir).name: partition.is_future_key
        for result in response.results
        for topic in result.topics
        for partition in topic.partitions
    }


def test_a_partition_moves_while_it_is_used(
    start: Callable[[], BrokerProcess], paths: list[Path]
) -> None:
    broker = start()
    with Wire(broker.port) as wire:
        assert wire.create_topic("t", segment_bytes="1000000").error_code == ErrorCode.NONE
        for _ in range(COUNT):
            assert wire.produce("t", batch(CHUNK)).error_code == ErrorCode.NONE
        assert places(wire) == {"first": False}
        assert move(wire, paths[1]) == ErrorCode.NONE
        assert places(wire).get("second") in (True, False)
        broker.wait_for_event("move.ended")
        assert places(wire) == {"second": False}
        assert wire.produce("t", batch(b"more")).base_offset == COUNT
        for offset in (0, COUNT - 1, COUNT):
            assert wire.fetch("t", offset).error_code == ErrorCode.NONE
        assert move(wire, paths[1], version=1) == ErrorCode.NONE, "the partition is there already"
    broker.kill()
    broker = start()
    with Wire(broker.port) as wire:
        assert places(wire) == {"second": False}
        assert wire.fetch("t", 0).high_watermark == COUNT + 1


def test_a_log_dir_whose_name_is_not_utf_8_is_described_and_used(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd-\xff"))
    broker = start_broker(overrides={"broker.id": "7", "log.dirs": f"{tmp_path / 'first'},{odd}"})
    with Wire(broker.port) as wire:
        assert wire.create_topic("t").error_code == ErrorCode.NONE
        assert wire.produce("t", batch(b"v")).error_code == ErrorCode.NONE
        request = DescribeLogDirsRequest(topics=None)
        described = wire.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, request, DescribeLogDirsResponse)
        shown = [each.log_dir for each in described.results]
        assert shown == [str(tmp_path / "first"), rf"{tmp_path}/odd-\udcff"]
        assert [move(wire, path) for path in shown] == [ErrorCode.NONE, ErrorCode.NONE]
        broker.wait_for_event("move.ended")
        assert list(places(wire)) == [r"odd-\udcff"]
        resource = DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name="7")
        asked = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        [configs] = wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, asked, DescribeConfigsResponse).results
        assert ",".join(shown) in [each.value for each in configs.configs]


def test_a_move_interrupted_by_a_crash_continues(
    start: Callable[[], BrokerProcess], paths: list[Path]
) -> None:
    broker = start()
    with Wire(broker.port) as wire:
        assert wire.create_topic("t", segment_bytes="1000000").error_code == ErrorCode.NONE
        for _ in range(COUNT):
            assert wire.produce("t", batch(CHUNK)).error_code == ErrorCode.NONE
        assert move(wire, paths[1]) == ErrorCode.NONE
        # Kill at once: the copy is in progress, or has just replaced the log.
        broker.kill()
    broker = start()
    with Wire(broker.port) as wire:
        if places(wire) != {"second": False}:
            broker.wait_for_event("move.ended")
        assert places(wire) == {"second": False}
        assert wire.fetch("t", 0).high_watermark == COUNT


def test_impossible_moves_are_refused(
    start: Callable[[], BrokerProcess], paths: list[Path]
) -> None:
    broker = start()
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        assert move(wire, "/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
        assert move(wire, paths[1], topic="x" * 220) == ErrorCode.INVALID_TOPIC_EXCEPTION
        # The broker remembers the log dir for a partition that it does not have yet.
        assert move(wire, paths[0], topic="later") == ErrorCode.REPLICA_NOT_AVAILABLE
        wire.create_topic("later")
        assert (paths[0] / "later-0").is_dir()
