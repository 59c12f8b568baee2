"""A process that is killed at any system call loses no acknowledged record.

The process dies before one of the calls that change the disk, or that open a file.
Data that the kernel has received survives; `test_torn_write` covers a power loss.
"""

import random
import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import read_header
from storage.config.log_config import LogConfig
from storage.log.log import Log
from storage.log.retention_deletion import delete_expired
from tests.unit.storage.faults import CHANGES, Died, faulty
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    Batch,
    batch_of,
    check_files,
    crash,
    create,
    open_logs,
    read_all,
    split,
)

INTERVAL = 200
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=INTERVAL, file_delete_delay_ms=0)
LIVES = 4
OPERATIONS_PER_LIFE = 60
LONGEST_LIFE = 120
SEEDS = 16


class Broker:
    """One log of a broker, and the knowledge of its clients.

    `batches` holds the acknowledged batches that were not deleted since; `start` is the log start
    offset. `maybe` holds the effect of a running operation, which may survive a kill or not.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.dice = random.Random(seed)
        self.batches: list[Batch] = []
        self.maybe: list[Batch] = []
        self.kept_to: int | None = None
        self.start = self.highest_start = 0
        self.epoch = 0
        self.deaths = 0
        self.open()

    def open(self) -> None:
        self.logs = open_logs(self.directory, config=CONFIG)
        self.log = create(self.logs, topic_id=None, config=CONFIG)

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else int(self.log.log_end_offset)

    def live(self) -> None:
        """Run random operations, until a fixed number or the death of the process."""
        operations = [self.append] * 6 + [
            self.flush, self.checkpoint, self.truncate, self.advance, self.expire, self.remove,
        ]  # fmt: skip
        try:
            with faulty(self.dice.randrange(LONGEST_LIFE), (*CHANGES, "open")):
                for _ in range(OPERATIONS_PER_LIFE):
                    self.dice.choice(operations)()
        except Died:
            self.deaths += 1

    def append(self) -> None:
        self.epoch += self.dice.random() < 0.1
        batch = batch_of([NOW_MS] * self.dice.randrange(1, 4))
        base_offset = self.log.log_end_offset
        # Before the append, which writes offset and epoch into the batch.
        header = read_header(batch)
        self.maybe = [Batch(0, base_offset, base_offset + header.last_offset_delta, 0, 0, b"")]
        self.log.append_as_leader(memoryview(batch), header, LeaderEpoch(self.epoch), NOW_MS)
        self.batches += split(bytes(batch))
        self.maybe = []

    def flush(self) -> None:
        self.log.upkeep.flush()

    def checkpoint(self) -> None:
        self.logs.checkpoints.write_bounds()
        self.logs.checkpoints.write_high_watermarks({PARTITION: self.log.log_end_offset})

    def truncate(self) -> None:
        target = self.dice.randrange(self.start, self.end + 1)
        kept = [batch for batch in self.batches if batch.last_offset < target]
        self.kept_to = len(kept)
        self.logs.truncate_to({PARTITION: Offset(target)})
        self.batches, self.kept_to = kept, None
        self.start = min(self.start, self.end)

    def advance(self) -> None:
        self.start = self.dice.randrange(self.start, self.log.log_end_offset + 1)
        self.highest_start = max(self.highest_start, self.start)
        self.log.advance_log_start(Offset(self.start))

    def expire(self) -> None:
        self.log.update_config(LogConfig(segment_bytes=700, retention_bytes=2_000))
        # Before the operation, because a kill may leave it half done.
        self.start = max(self.start, self._expired_start())
        self.highest_start = max(self.highest_start, self.start)
        delete_expired(self.log, self.log.log_end_offset, NOW_MS, max_segments=1_000)
        self.log.update_config(CONFIG)

    def _expired_start(self) -> int:
        """Return the log start offset after retention has deleted all it may."""
        sizes = [(segment.base_offset, segment.size_bytes) for segment in self.log.segments]
        rest = sum(size for _, size in sizes)
        for base_offset, size in sizes:
            if rest - size < 2_000:
                return int(base_offset)
            rest -= size
        return int(self.log.log_end_offset)

    def remove(self) -> None:
        self.logs.remove_deleted(NOW_MS, delay_ms=0)

    def come_back(self) -> None:
        """Start again, and check that nothing is missing."""
        crash(self.logs)
        self.open()
        first = self.log.segments[0].base_offset
        start, end = self.log.log_start_offset, self.log.log_end_offset
        # A log truncated below its start is restarted there, by the old checkpoint.
        is_anew = start == end <= self.highest_start
        assert start <= self.start or is_anew, "the log begins later than anybody asked"
        found = split(b"".join(_segment_bytes(self.log)))
        expected = [batch for batch in self.batches if batch.base_offset >= first]
        least = expected
        if self.kept_to is not None:
            gone = {batch.base_offset for batch in self.batches[self.kept_to :]}
            least = [batch for batch in expected if batch.base_offset not in gone]
        assert _data(found[: len(least)]) == _data(least), "an acknowledged batch is missing"
        extra = found[len(least) :]
        if self.kept_to is not None:
            assert _data(extra) == _data(expected[len(least) : len(found)])
        else:
            assert [batch.base_offset for batch in extra] in (
                [],
                [batch.base_offset for batch in self.maybe],
            )
        assert all(batch.base_offset < first for batch in self.batches if batch not in expected)
        for batch in found:
            if batch.base_offset >= start:
                epoch = read_header(batch.data).leader_epoch
                assert self.log.leader_epochs.epoch_for(Offset(batch.base_offset)) == epoch
        self.batches, self.maybe, self.kept_to = found, [], None
        self.start = int(start)
        self.epoch = max(self.epoch, self.log.leader_epochs.latest)

    def close(self) -> None:
        self.logs.close()
        check_files(self.log.directory, INTERVAL)


def _segment_bytes(log: Log) -> list[bytes]:
    return [segment.files.open_log(0).path.read_bytes() for segment in log.segments]


def _data(batches: list[Batch]) -> list[bytes]:
    return [batch.data for batch in batches]


@pytest.mark.fresh_seeds(SEEDS)
def test_process_killed_at_any_call_loses_no_acknowledged_record(tmp_path: Path, seed: int) -> None:
    with capture_logs():
        broker = Broker(tmp_path / "data", seed)
        for _ in range(LIVES):
            broker.live()
            broker.come_back()
        assert broker.deaths > 0
        broker.append()
        stored = read_all(broker.log)
        broker.close()
        broker.open()
        assert read_all(broker.log) == stored
        broker.close()
    shutil.rmtree(tmp_path / "data")
