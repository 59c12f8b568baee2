"""Failed disks in a cluster: another replica of each partition takes over."""

from pathlib import Path

from kafkawire.errors import ErrorCode
from tests.integration.broker.broker_cluster import BrokerCluster
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator

MANY = 50
VALUE = b"v" * 1_000


def produce_until_refused(wire: Wire, partition: int) -> int:
    """Return the number of batches acknowledged before the disk failed."""
    for count in range(MANY):
        code = wire.produce("t", batch(VALUE), partition=partition).error_code
        if code != ErrorCode.NONE:
            assert code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return count
    raise AssertionError("the disk never failed")


def test_partitions_of_a_failed_disk_go_to_other_brokers(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    disks = [tmp_path / "disk-1", tmp_path / "disk-2"]
    overrides = {"log.dirs": ",".join(map(str, disks))}
    with (
        BrokerCluster(tmp_path / "two", coordinator.address, overrides) as with_two,
        BrokerCluster(tmp_path / "one", coordinator.address) as with_one,
    ):
        with_two.start(1)
        with_one.start(2)
        with_one.until_all_say(lambda asked: len(with_one.metadata(asked).brokers) == 2)
        with_two.create_topic("t", [[1, 2], [1, 2]], segment_bytes="5000")
        with_one.until_in_sync("t", {1, 2}, {1, 2})
        lost = 0 if (disks[1] / "t-0").is_dir() else 1
        with with_two.wire(1) as wire:
            # The first batch of an epoch also writes to the file of leader epochs.
            assert wire.produce("t", batch(VALUE), partition=lost).error_code == 0
            disks[1].rename(tmp_path / "away")
            # A periodic check may find the failure before the next batch does.
            count = 1 + produce_until_refused(wire, lost)
            expected = [1, 1]
            expected[lost] = 2
            with_one.until_all_say(lambda asked: with_one.leaders(asked, "t") == expected)
            assert wire.produce("t", batch(VALUE), partition=1 - lost).error_code == 0
        with with_one.wire(2) as wire:
            found = wire.fetch("t", 0, partition=lost)
            assert found.high_watermark >= count
            answer = wire.produce("t", batch(VALUE), partition=lost)
            assert answer.error_code == ErrorCode.NONE
