"""Judges the checkpoints of running brokers, from which their next start begins."""

from __future__ import annotations

from pathlib import Path

from broker.replication.replica import Replica
from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from storage.disk.checkpoint import read_entries
from storage.disk.layout import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from storage.errors import CorruptCheckpointError
from tests.simulation.world.cluster import BrokerHost


class StoredJudge:
    """Compares the checkpoints with their earlier content, and with the logs in memory."""

    def __init__(self) -> None:
        self._high_watermarks: dict[tuple[object, ...], dict[int, int]] = {}
        self._found: dict[tuple[object, ...], list[list[str]]] = {}
        """Entries that a loss of power has left."""

    def look(self, host: BrokerHost) -> None:
        """Judge the files of a broker.

        Raises:
            AssertionError: a checkpoint has lost an entry, or has one that is wrong by now.
        """
        replicas = {each.topic_partition: each for each in host.program._replicas.table}
        for directory in host.log_dirs:
            self._judge_high_watermarks(host, directory)
            for topic, number, point in _entries(directory / RECOVERY_POINT_CHECKPOINT):
                held = replicas.get(TopicPartition(topic, int(number)))
                if held is not None and held.log.directory.parent == directory:
                    end = held.log.log_end_offset
                    assert int(point) <= end, f"{held.log.directory}: {point} recovered of {end}"
        for replica in replicas.values():
            _judge_epochs(replica)

    def _judge_high_watermarks(self, host: BrokerHost, directory: Path) -> None:
        """Check that stored high watermarks never go back, of a topic that is never moved."""
        found = _entries(directory / HIGH_WATERMARK_CHECKPOINT)
        if not found:
            return
        key = (directory, host.disk.crash_count)
        stored = {int(number): int(at) for topic, number, at in found if topic == OFFSETS_TOPIC}
        is_new = key not in self._high_watermarks and host.disk.crash_count > 0
        if is_new and self._found.setdefault(key, found) == found:
            # The logs may have lost records whose high watermarks were on disk.
            return
        for number, least in self._high_watermarks.get(key, {}).items():
            now = stored.get(number, -1)
            assert least <= now, f"{directory} stores {now} of {number} after {least}"
        self._high_watermarks[key] = stored


def _judge_epochs(replica: Replica) -> None:
    """Check that the file of epochs names none that other records have replaced."""
    log = replica.log
    known = log.leader_epochs.entries
    for epoch, start in _entries(log.directory / LEADER_EPOCH_CHECKPOINT):
        if log.log_start_offset <= int(start) < log.log_end_offset:
            # A copy of a compacted log may store a later start of the same leadership.
            held = [each.epoch for each in known if each.start_offset <= int(start)]
            text = f"{log.directory} stores epoch {epoch} from {start} on, not in {known}"
            assert held[-1:] == [int(epoch)], text


def _entries(path: Path) -> list[list[str]]:
    """Return the entries of a checkpoint; none if it cannot be read now."""
    try:
        return read_entries(path)
    except (OSError, CorruptCheckpointError):
        return []
