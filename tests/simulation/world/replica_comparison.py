"""Compares the replicas of a partition at rest: they must hold the same records and history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.replication.replica import Replica
from kafkawire.ids import Offset
from kafkawire.records import BatchHeader, iterate_batches
from kafkawire.records_read import read_records
from kafkawire.units import MIB

Batch = tuple[BatchHeader, memoryview]


def compare(replicas: Sequence[Replica]) -> None:
    """Compare the replicas up to their high watermark.

    Raises:
        AssertionError: they differ, or the epochs of a replica contradict its records.
    """
    partition = replicas[0].topic_partition
    for each in replicas:
        _judge_history(each)
    if "compact" in replicas[0].log.config.cleanup_policy:
        latest = [_latest_values(each) for each in replicas]
        assert all(each == latest[0] for each in latest), f"{partition}: the values differ"
        return
    start = max(each.log.log_start_offset for each in replicas)
    contents = {b"".join(data for _, data in _batches(each, start)) for each in replicas}
    assert len(contents) == 1, f"{partition}: the replicas differ"


def _judge_history(replica: Replica) -> None:
    epochs = replica.log.leader_epochs
    for header, _ in _batches(replica, replica.log.log_start_offset):
        known, offset = epochs.epoch_for(Offset(header.base_offset)), header.base_offset
        text = f"{replica.log.directory}@{offset}: epoch {header.leader_epoch}, not {known}"
        assert known in (-1, header.leader_epoch), text


def _latest_values(replica: Replica) -> dict[bytes, int]:
    """Return the offset of the latest record of each key, without deleted keys.

    Replicas are compacted independently, so earlier records and tombstones may differ.
    """
    found: dict[bytes, int] = {}
    for header, data in _batches(replica, replica.log.log_start_offset):
        if header.is_control:
            continue
        for record in read_records(data):
            key = bytes(record.key or b"")
            found.pop(key, None)
            if record.value is not None:
                found[key] = record.offset
    return dict(sorted(found.items()))


def _batches(replica: Replica, start: Offset) -> Iterator[Batch]:
    """Iterate over the batches from the one that holds `start` to the high watermark."""
    offset = start
    while offset < replica.high_watermark:
        region = replica.log.read(
            offset, MIB, end_offset=replica.high_watermark, min_one_batch=True
        )
        data = region.read()
        if not data:
            return
        for header, batch in iterate_batches(data):
            yield header, batch
            offset = Offset(header.last_offset + 1)
