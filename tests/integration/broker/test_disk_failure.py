"""A disk that fails under a running broker.

The system refuses every write to a file (a limit on file sizes, set from outside). To a process,
this looks like a broken disk.
"""

import resource
import signal
from collections.abc import Sequence
from pathlib import Path

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.conftest import STOP_TIMEOUT_S, BrokerProcess, StartBroker
from tests.integration.broker.test_lifecycle import CLEAN_SHUTDOWN
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator, wait_until


def break_disk(broker: BrokerProcess) -> None:
    # Python ignores SIGXFSZ, so that writes fail with EFBIG.
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (0, hard))


def mend_disk(broker: BrokerProcess) -> None:
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (hard, hard))


def states(wire: Wire) -> list[tuple[int, int, int, Sequence[int]]]:
    """Return the metadata of each partition."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    found = wire.ask(ApiKey.METADATA, 12, asked, MetadataResponse).topics[0]
    return [
        (p.partition_index, p.error_code, p.leader_id, p.offline_replicas) for p in found.partitions
    ]


def test_a_broker_without_any_log_dir_stops_and_logs_the_reason(
    coordinator: Coordinator, start_broker: StartBroker
) -> None:
    joining = {"zookeeper.connect": coordinator.address}
    broker = start_broker(overrides=joining)
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        wire.produce("t", batch(b"a"))
        break_disk(broker)
        assert wire.produce("t", batch(b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.process.wait(STOP_TIMEOUT_S) == 1
    broker.wait_for_event("broker.failed")

    again = start_broker(broker.data_dir, overrides=joining)
    with Wire(again.port) as wire:
        assert wire.fetch("t", 0).high_watermark == 1


def test_the_other_log_dirs_stay_online(
    coordinator: Coordinator, start_broker: StartBroker, tmp_path: object
) -> None:
    paths = f"{tmp_path}/first,{tmp_path}/second"
    broker = start_broker(overrides={"log.dirs": paths, "zookeeper.connect": coordinator.address})
    with Wire(broker.port) as wire, Wire(broker.port) as parked:
        wire.create_topic("t", partitions=2)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
        request = FetchRequest(
            max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted])]
        )
        parked.send(ApiKey.FETCH, 12, request)
        wire.produce("t", batch(b"a"), partition=1)
        break_disk(broker)
        answer = wire.produce("t", batch(b"a"), partition=0)
        mend_disk(broker)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR

        _, response = parked.receive(ApiKey.FETCH, 12)
        assert isinstance(response, FetchResponse)
        code = response.responses[0].partitions[0].error_code
        assert code == ErrorCode.KAFKA_STORAGE_ERROR, "a waiting consumer gets the error"

        assert wire.produce("t", batch(b"b"), partition=1).base_offset == 1
        again = wire.produce("t", batch(b"a"), partition=0)
        assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        wait_until(
            lambda: (
                states(wire)
                == [(0, ErrorCode.LEADER_NOT_AVAILABLE, -1, [1001]), (1, ErrorCode.NONE, 1001, [])]
            )
        )
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(STOP_TIMEOUT_S) == 0


def test_a_stop_with_a_broken_log_dir_finishes_for_the_others(
    coordinator: Coordinator, start_broker: StartBroker, tmp_path: Path
) -> None:
    paths = [tmp_path / "first", tmp_path / "second"]
    joining = {"zookeeper.connect": coordinator.address, "broker.id": "1"}
    broker = start_broker(overrides={"log.dirs": ",".join(map(str, paths)), **joining})
    with Wire(broker.port) as wire:
        wire.create_topic("t", partitions=2)
        for number in range(2):
            wire.produce("t", batch(b"a"), partition=number)
    # Every name below the first log dir, the session file included, is now an error.
    gone = paths[0].rename(tmp_path / "gone")
    paths[0].touch()
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(STOP_TIMEOUT_S) == 0
    broker.wait_for_event("broker.stopped")
    unclosed = [each for each in broker.events if each["event"] == "log_dir.not_closed"]
    assert [each["path"] for each in unclosed] == [str(paths[0])]
    assert (paths[1] / CLEAN_SHUTDOWN).exists()
    assert not (gone / CLEAN_SHUTDOWN).exists()
