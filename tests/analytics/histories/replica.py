"""One replica of a partition, in a log dir of its own, driven through the storage's interface.

A replica is up or down. A stop or a death leaves its files as they are.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.replication.divergence import divergence, truncation_offset
from kafkawire.ids import Offset, topic_id_from_text
from storage.compaction.cleanable import weigh
from storage.compaction.cleaner import Cleaner
from storage.compaction.job import CleaningDone, GroupCleaned
from storage.compaction.job_maker import cleaning_job, log_facts
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.disk.layout import CLEAN_SHUTDOWN
from storage.errors import UnexpectedOffsetError
from storage.log.log import Log
from storage.log.retention_deletion import delete_expired
from tests.unit.storage.compacting import SEED
from tests.unit.storage.compacting import settings as cleaner_settings
from tests.unit.storage.faults import dies_within
from tests.unit.storage.logs import PARTITION, crash, log_of

TOPIC_ID: Final = topic_id_from_text("AAAAAAAAAAAAAAAAAAAAAQ")
_MAX_SEGMENTS: Final = 100


class Replica:
    """A replica below `root`, which is created; an archive neither cleans nor deletes."""

    def __init__(
        self,
        root: Path,
        config: LogConfig,
        now_ms: int,
        cuts: random.Random,
        *,
        is_archive: bool = False,
    ) -> None:
        """`cuts` decides which deaths leave an empty snapshot."""
        self.root = root
        self._cuts = cuts
        self.is_archive = is_archive
        self.is_up = True
        self.high_watermark = 0
        self.truncation_count = 0
        self.is_emptying = False
        """Whether it is emptying its log, which its leader has deleted, or has died meanwhile."""
        self.has_forgotten = False
        """Whether a diverged end may remain below a log start that moved too early."""
        self._config = self._own(config)
        root.mkdir(parents=True)
        self.logs = self._opened(now_ms)
        self.logs.create(PARTITION, self._config, TOPIC_ID, now_ms=now_ms)

    def __str__(self) -> str:
        return self.root.name

    @property
    def log(self) -> Log:
        """The served log."""
        return log_of(self.logs)

    @property
    def end(self) -> int:
        """The log end offset."""
        return int(self.log.log_end_offset)

    @property
    def is_compacted(self) -> bool:
        """Whether this replica cleans its log."""
        return self._config.is_compacted

    def configure(self, config: LogConfig) -> None:
        """Adopt the topic's configs."""
        self._config = self._own(config)
        if self.is_up:
            self.log.update_config(self._config)

    def _own(self, config: LogConfig) -> LogConfig:
        if not self.is_archive:
            return config
        return replace(
            config, cleanup_policy=frozenset({"delete"}), retention_ms=None, retention_bytes=None
        )

    def _opened(self, now_ms: int) -> Logs:
        return Logs.open([self.root], config_of=lambda _topic: self._config, now_ms=now_ms)

    def does(self, work: Callable[[], object], dies_at: int | None) -> bool:
        """Do `work` and return True; or die before its change number `dies_at`."""
        if dies_at is None:
            work()
            return True
        if not dies_within(dies_at, work):
            return True
        self.die()
        return False

    def stop(self) -> None:
        """Shut down cleanly."""
        self.logs.checkpoints.write_high_watermarks({PARTITION: Offset(self.high_watermark)})
        self.logs.close()
        self.is_up = False

    def die(self) -> None:
        """End without closing anything; the page cache keeps all written bytes."""
        crash(self.logs)
        self.is_up = False
        if self._cuts.random() < 0.1:
            self._empty_snapshot()

    def _empty_snapshot(self) -> None:
        """Empty the newest snapshot, as if the recovery that was to write it had ended here."""
        directory = self.log.directory
        newest = max(directory.glob("*.snapshot"), default=None)
        active = max(directory.glob("*.log"), default=None)
        was_stopped = (self.root / CLEAN_SHUTDOWN).exists()
        if newest and active and newest.stem >= active.stem and not was_stopped:
            # A copy may hold a link to it.
            newest.unlink()
            newest.touch()

    def start(self, now_ms: int) -> None:
        """Open the log from its files, with recovery where needed."""
        (self.root / ".lock").unlink(missing_ok=True)
        self.logs = self._opened(now_ms)
        self.high_watermark = int(self.logs.checkpoints.high_watermark(PARTITION))
        self.is_up = True

    def fetch(self, leader: "Replica", now_ms: int, max_bytes: int) -> None:
        """Follow `leader`: cut a diverged end, append its batches, adopt its bounds."""
        self._truncate_diverged(leader)
        while self.log.log_end_offset < leader.log.log_end_offset:
            if self.log.log_end_offset < leader.log.log_start_offset:
                self.is_emptying = True
                # The first batch may begin below that offset, and then the log begins there.
                self.logs.truncate_fully_and_start_at({PARTITION: leader.log.log_start_offset})
            region = leader.log.read(
                self.log.log_end_offset,
                max_bytes,
                end_offset=leader.log.log_end_offset,
                min_one_batch=True,
            )
            if not region.size_bytes:
                self.is_emptying = False
                break
            try:
                self.log.append_as_follower(memoryview(bytearray(region.read())), now_ms)
            except UnexpectedOffsetError as error:
                # The leader's log start lies inside this batch, as in the broker's fetcher.
                if error.diverging_offset is None:
                    raise
                self.truncation_count += 1
                self.logs.truncate_to({PARTITION: error.diverging_offset})
            self.is_emptying = False
        self.high_watermark = max(
            min(self.high_watermark, self.end), min(leader.high_watermark, self.end)
        )
        start = min(leader.log.log_start_offset, Offset(self.high_watermark))
        if not self.is_archive and start > self.log.log_start_offset:
            self.log.advance_log_start(start)

    def _truncate_diverged(self, leader: "Replica") -> None:
        """Cut the end that differs from `leader`'s log; it was not committed."""
        ours, theirs = self.log, leader.log
        # Then the leader no longer knows in which epoch it has written there.
        self.has_forgotten |= self.high_watermark < ours.log_end_offset <= theirs.log_start_offset
        while found := divergence(
            theirs.leader_epochs,
            theirs.log_end_offset,
            last_epoch=ours.leader_epochs.latest,
            fetch_offset=ours.log_end_offset,
        ):
            before = ours.log_end_offset, ours.leader_epochs.latest
            target = truncation_offset(
                ours.leader_epochs, ours.log_end_offset, Offset(self.high_watermark), found
            )
            self.truncation_count += 1
            self.has_forgotten |= self.high_watermark < target <= theirs.log_start_offset
            self.logs.truncate_to({PARTITION: target})
            if before == (ours.log_end_offset, ours.leader_epochs.latest):
                break

    def clean(self, now_ms: int, slot_count: int) -> None:
        """Clean the log once, up to the last stable offset, as a broker does."""
        log, checkpoints = self.log, self.logs.checkpoints
        undecided = log.last_stable_offset(Offset(self.high_watermark))
        facts = log_facts(log, undecided)
        candidate = weigh(facts, checkpoints.cleaner_offset(PARTITION), now_ms)
        if candidate.first_dirty_offset >= candidate.first_uncleanable_offset:
            return
        job = cleaning_job(log, candidate, cleaner_settings(slot_count=slot_count), now_ms)
        for report in Cleaner(job, seed=SEED).clean():
            if isinstance(report, GroupCleaned):
                assert log.upkeep.begin_swap(report.replaced, report.size_bytes)
                log.upkeep.sync_names()
                assert log.upkeep.finish_swap(now_ms)
            else:
                assert isinstance(report, CleaningDone)
                checkpoints.note_cleaner_offset(PARTITION, Offset(report.end_offset))
        log.upkeep.sync_names()
        checkpoints.write_cleaner_offsets()

    def expire(self, now_ms: int) -> None:
        """Run retention once."""
        delete_expired(self.log, Offset(self.high_watermark), now_ms, _MAX_SEGMENTS)

    def write_high_watermark(self) -> None:
        """Write the checkpoint of the high watermark."""
        self.logs.checkpoints.write_high_watermarks({PARTITION: Offset(self.high_watermark)})
