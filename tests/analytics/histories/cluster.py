"""A partition with a leader, followers and an archive, whose history is drawn from a seed.

Only histories that a cluster can have: elections are clean, a follower truncates where its log
diverges from its leader's, a cleaner stays below its replica's own high watermark and the last
stable offset. The archive has every batch as it was appended, because it fetches after each append.
A step may end with the death of the process that does it, before any of its changes of files.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from kafkawire.compression import Codec
from kafkawire.ids import Offset
from kafkawire.records import (
    BatchBuilder,
    ControlType,
    TimestampType,
    build_control_batch,
    read_header,
)
from logcheck.rule import Rules
from storage.config.log_config import COMPACT, DELETE, LogConfig
from storage.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from tests.analytics.histories.live_copy import LiveCopy
from tests.analytics.histories.replica import Replica
from tests.unit.storage.faults import Faults
from tests.unit.storage.logs import NOW_MS
from tests.unit.storage.produced_batches import write

PLAIN, IDEMPOTENT, TRANSACTIONAL = range(3)
POLICIES: Final = (frozenset({COMPACT}), frozenset({COMPACT, DELETE}), frozenset({DELETE}))
MAX_REPLICAS: Final = 3
ODD_TIMES_MS: Final = (0, -1, 1, 10**15)
CLOCK_ERROR_MS: Final = 400
"""The greatest error of a client's clock, ahead or behind."""
FORGETTING: Final = "forgetting"
"""A leader has forgotten the epochs by which a replica would truncate its whole diverged end."""
DELETING: Final = "deleting"
"""Records were deleted, so that a replica that copies the rest does not know their producers."""
LAGGING: Final = "lagging"
"""A replica has lagged for longer than tombstones are kept, so that it may never see some."""
EMPTYING: Final = "emptying"
"""A replica has died while it emptied its log, so that committed records seem to be lost."""
UNDOING: Final = "undoing"
"""The end of a log was cut off; a cleaner may have relied on it."""


@dataclass
class Producer:
    producer_id: int
    kind: int
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    """After each batch: the log end offset, the epoch, and the next sequence."""

    def lose_from(self, end_offset: int) -> bool:
        """Forget the batches at and beyond `end_offset`; return whether there were any."""
        count = len(self.sent)
        while self.sent and self.sent[-1][0] > end_offset:
            self.sent.pop()
        return len(self.sent) < count

    def __str__(self) -> str:
        return f"{self.producer_id} epoch {self.epoch} sequence {self.sequence}"


class Cluster:
    """The partition; `step` does something random."""

    def __init__(
        self, root: Path, seed: int, faults: Faults, config: LogConfig | None = None
    ) -> None:
        """Create the replicas below `root`; `faults` counts all changes of files."""
        self.root = root
        self.dice = dice = random.Random(seed)
        self._cuts = random.Random(f"cuts {seed}")
        self.now_ms = NOW_MS
        self.is_mortal = config is None
        self.live_copy = LiveCopy(root / "copy", faults)
        self.config = config or LogConfig(
            cleanup_policy=dice.choice(POLICIES),
            segment_bytes=dice.choice([700, 1_200, 2_000]),
            index_interval_bytes=dice.choice([0, 100, 300]),
            segment_index_bytes=1_200,
            delete_retention_ms=1_000,
            min_cleanable_dirty_ratio=0.0,
            retention_ms=dice.choice([None, 4_000]),
            retention_bytes=dice.choice([None, 3_000]),
            message_timestamp_type=dice.choice(list(TimestampType)),
            preallocate=dice.random() < 0.2,
        )
        self.has_odd_times = config is None and dice.random() < 0.1
        self.codecs = dice.choice([[Codec.NONE], list(Codec)])
        self.has_producers = config is not None or dice.random() < 0.8
        kinds = [PLAIN, IDEMPOTENT, IDEMPOTENT, TRANSACTIONAL, TRANSACTIONAL]
        self.producers = [Producer(number + 100, kind) for number, kind in enumerate(kinds)]
        self.changes: set[str] = set()
        """The changed configs, and which of `DELETING`, `LAGGING` and others happened."""
        self.epoch = self.coordinator_epoch = 0
        self._names = 0
        self._behind_since_ms: dict[Replica, int] = {}
        self.replicas: list[Replica] = []
        self.archive = Replica(
            root / "archive", self.config, self.now_ms, self._cuts, is_archive=True
        )
        self.leader = self._added()
        self.in_sync = {self.leader}
        self._added()
        self.expired: Replica | None = None
        """The replica for which the last step has run retention."""
        self.deeds: list[str] = []
        """The steps so far, in words."""

    def _added(self) -> Replica:
        self._names += 1
        new = Replica(self.root / f"broker-{self._names}", self.config, self.now_ms, self._cuts)
        self.replicas.append(new)
        return new

    # --- steps

    def step(self) -> None:
        """Take one random step that is possible now."""
        self.expired = None
        self.now_ms += self.dice.choice([1, 20, 300])
        steps: list[tuple[float, Callable[[], str]]] = [
            (12, self.produce),
            (4, self.end_transaction),
            (0.3, self.write_marker_again),
            (6, self.fetch),
            (2, self.roll),
            (5, self.clean),
            (1.5, self.expire),
            (0.7, self.delete_records),
            (3, self.write_checkpoints),
            (1, self.flush),
            (1.5, self.elect),
            (1, self.stop),
            (1, self.kill),
            (4, self.start),
            (0.7, self.reassign),
            (1, self.remove_files),
            (0.5, self.configure),
            (1, self.copy_live),
            (1, self.wait),
        ]
        while True:
            (work,) = self.dice.choices([each for _, each in steps], [each for each, _ in steps])
            if done := work():
                self.deeds.append(f"{work.__name__} {done}")
                self._note_lag()
                return

    def _note_lag(self) -> None:
        for each in self.replicas:
            if each.end >= self.leader.end:
                self._behind_since_ms.pop(each, None)
                continue
            since_ms = self._behind_since_ms.setdefault(each, self.now_ms)
            if self.now_ms - since_ms >= self.config.delete_retention_ms:
                self.changes.add(LAGGING)

    def _dies_at(self) -> int | None:
        dice = self.dice
        if not self.is_mortal or dice.random() < 0.75:
            return None
        return dice.choice([dice.randrange(6), dice.randrange(20), dice.randrange(60)])

    def _do(self, replica: Replica, work: Callable[[], object]) -> str:
        """Let `replica` do `work`, or die meanwhile."""
        dies_at = self._dies_at()
        if replica.does(work, dies_at):
            return str(replica)
        self._note_down(replica)
        return f"{replica} died at {dies_at}"

    def _note_down(self, replica: Replica) -> None:
        if self.in_sync != {replica}:
            self.in_sync.discard(replica)

    @property
    def is_led(self) -> bool:
        """Whether the leader is up. One that has left the in-sync set waits for an election."""
        return self.leader.is_up and self.leader in self.in_sync

    def _any_up(self) -> Replica | None:
        up = [each for each in self.replicas if each.is_up]
        return self.dice.choice(up) if up else None

    def _feed_archive(self) -> None:
        if self.is_led:
            self.archive.fetch(self.leader, self.now_ms, 1_000_000)
            self.archive.write_high_watermark()
            self._raise_high_watermark()

    def _raise_high_watermark(self) -> None:
        ends = [each.end for each in self.in_sync if each.is_up]
        if self.is_led and ends:
            self.leader.high_watermark = max(self.leader.high_watermark, min(ends))

    def produce(self) -> str:
        if not self.is_led:
            return ""
        kind = self.dice.choice(self.producers if self.has_producers else self.producers[:1])
        done = []
        for _ in range(self.dice.choice([1, 1, 2, 5])):
            done.append(self._do(self.leader, partial(self._append, kind)))
            if done[-1] != str(self.leader):
                break
        self._feed_archive()
        return f"{kind} {done}"

    def _append(self, producer: Producer) -> None:
        batch = self._batch(producer)
        header = read_header(batch)
        try:
            self._append_bytes(batch)
        except (OutOfOrderSequenceError, InvalidProducerEpochError):
            # As a client after a truncation of unacknowledged batches.
            producer.epoch, producer.sequence = producer.epoch + 1, 0
            batch = self._batch(producer)
            header = read_header(batch)
            self._append_bytes(batch)
        producer.sequence += header.record_count
        producer.sent.append((self.leader.end, producer.epoch, producer.sequence))
        producer.is_open = producer.kind == TRANSACTIONAL
        if producer.kind == IDEMPOTENT and self.dice.random() < 0.1:
            # A retry, because the response was lost.
            self._append_bytes(batch)
        if producer.kind == IDEMPOTENT and self.dice.random() < 0.1:
            producer.epoch, producer.sequence = producer.epoch + 1, 0

    def _append_bytes(self, batch: bytearray) -> None:
        write(self.leader.log, batch, self.epoch, self.now_ms)

    def _batch(self, producer: Producer) -> bytearray:
        dice = self.dice
        named = (producer.producer_id, producer.epoch, producer.sequence)
        if producer.kind == PLAIN:
            named = (-1, -1, -1)
        builder = BatchBuilder(
            dice.choice(self.codecs),
            TimestampType.CREATE_TIME,
            *named,
            producer.kind == TRANSACTIONAL,
        )
        for _ in range(dice.randint(1, 5)):
            builder.append(self._time_ms(), self._key(), self._value(), self._headers())
        return builder.build()

    def _time_ms(self) -> int:
        if self.has_odd_times and self.dice.random() < 0.7:
            return self.dice.choice(ODD_TIMES_MS)
        return self.now_ms + self.dice.randrange(-CLOCK_ERROR_MS, CLOCK_ERROR_MS)

    def _key(self) -> bytes | None:
        if not self.config.is_compacted and self.dice.random() < 0.3:
            return None
        return self.dice.choice([b"", b"key-%d" % self.dice.randrange(10)])

    def _value(self) -> bytes | None:
        dice = self.dice
        return None if dice.random() < 0.25 else b"%d" % dice.randrange(10**6) * dice.randint(0, 9)

    def _headers(self) -> list[tuple[str, bytes | None]]:
        return [("h", self.dice.choice([b"x", None]))] if self.dice.random() < 0.1 else []

    def end_transaction(self) -> str:
        choice = [each for each in self.producers if each.is_open]
        if not self.is_led or not choice:
            return ""
        producer = self.dice.choice(choice)
        kind = self.dice.choice(list(ControlType))
        if self.dice.random() < 0.2:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        done = self._do(self.leader, partial(self._append_marker, producer, kind))
        self._feed_archive()
        return f"{producer} {kind.name} {done}"

    def write_marker_again(self) -> str:
        """Write a marker without data, as a coordinator does that repeats its requests."""
        choice = [each for each in self.producers if each.kind == TRANSACTIONAL]
        if not self.is_led or not self.has_producers:
            return ""
        producer, kind = self.dice.choice(choice), self.dice.choice(list(ControlType))
        done = self._do(self.leader, partial(self._append_marker, producer, kind))
        self._feed_archive()
        return f"{producer} {kind.name} {done}"

    def _append_marker(self, producer: Producer, kind: ControlType) -> None:
        self.coordinator_epoch += self.dice.random() < 0.1
        batch = build_control_batch(
            kind,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=self.coordinator_epoch,
            timestamp_ms=self.now_ms,
        )
        self._append_bytes(batch)
        producer.is_open = False

    def fetch(self) -> str:
        self._feed_archive()
        choice = [each for each in self.replicas if each.is_up and each is not self.leader]
        if not self.is_led or not choice:
            return ""
        replica = self.dice.choice(choice)
        max_bytes = self.dice.choice([1, 300, 1_000_000])
        count = replica.truncation_count
        work = partial(replica.fetch, self.leader, self.now_ms, max_bytes)
        done = self._do(replica, work)
        if replica.is_emptying:
            self.changes.add(EMPTYING)
        if replica.has_forgotten:
            self.changes.add(FORGETTING)
        if replica.truncation_count > count:
            self.changes.add(UNDOING)
            self.live_copy.on_truncation(replica.root)
        if replica.is_up and replica.end == self.leader.end:
            self.in_sync.add(replica)
        self._raise_high_watermark()
        return done

    def roll(self) -> str:
        replica = self._any_up()
        if replica is None:
            return ""
        return self._do(replica, lambda: replica.log.upkeep.roll(self.now_ms))

    def clean(self) -> str:
        replica = self._any_up()
        if replica is None or not replica.is_compacted:
            return ""
        slots = self.dice.choice([3, 6, 1_000])
        return self._do(replica, lambda: replica.clean(self.now_ms, slots))

    def expire(self) -> str:
        replica = self._any_up()
        if replica is None:
            return ""
        replica.write_high_watermark()
        self.changes.add(DELETING)
        done = self._do(replica, lambda: replica.expire(self.now_ms))
        self.expired = replica if replica.is_up else None
        return done

    def delete_records(self) -> str:
        if not self.is_led or DELETE not in self.config.cleanup_policy:
            return ""
        start = int(self.leader.log.log_start_offset)
        to = self.dice.randint(start, max(start, self.leader.high_watermark))
        self.changes.add(DELETING)
        return f"{to} " + self._do(
            self.leader, lambda: self.leader.log.advance_log_start(Offset(to))
        )

    def write_checkpoints(self) -> str:
        replica = self._any_up()
        if replica is None:
            return ""
        checkpoints = replica.logs.checkpoints
        work = self.dice.choice([checkpoints.write_bounds, replica.write_high_watermark])
        return f"{work.__name__} {self._do(replica, work)}"

    def flush(self) -> str:
        replica = self._any_up()
        return "" if replica is None else self._do(replica, replica.log.upkeep.flush)

    def elect(self) -> str:
        choice = sorted((each for each in self.in_sync if each.is_up), key=str)
        if not choice:
            return ""
        self.leader = self.dice.choice(choice)
        self.epoch += 1
        self.in_sync = {self.leader}
        for each in self.producers:
            if each.lose_from(self.leader.end):
                # Batches that were never acknowledged are lost. The client begins another epoch, or
                # sends others of the same sequences; it skips none.
                has_first = not each.sent or each.sent[-1][1] == each.epoch
                if self.dice.random() < 0.5 or not has_first:
                    each.epoch, each.sequence = each.epoch + 1, 0
                else:
                    each.sequence = each.sent[-1][2] if each.sent else 0
        self._feed_archive()
        return f"{self.leader} epoch {self.epoch}"

    def stop(self) -> str:
        replica = self._any_up()
        if replica is None:
            return ""
        done = self._do(replica, replica.stop)
        self._note_down(replica)
        return done

    def kill(self) -> str:
        replica = self._any_up()
        if replica is None:
            return ""
        replica.die()
        self._note_down(replica)
        return str(replica)

    def start(self) -> str:
        choice = [each for each in self.replicas if not each.is_up]
        if not choice:
            return ""
        replica = self.dice.choice(choice)
        return self._do(replica, lambda: replica.start(self.now_ms))

    def reassign(self) -> str:
        """Add a replica without a log, or drop one, as a reassignment does."""
        others = [each for each in self.replicas if each is not self.leader]
        others = [each for each in others if each not in self.in_sync or len(self.in_sync) > 1]
        if len(self.replicas) >= MAX_REPLICAS and others:
            gone = self.dice.choice(others)
            if gone.is_up:
                gone.die()
            self.replicas.remove(gone)
            self.in_sync.discard(gone)
            # As a broker does, so that no copy can see a log of which only some files are gone.
            shutil.rmtree(gone.root.rename(gone.root.with_suffix(".deleted")))
        return str(self._added())

    def remove_files(self) -> str:
        replica = self._any_up()
        if replica is None:
            return ""
        return self._do(replica, lambda: replica.logs.remove_deleted(self.now_ms, delay_ms=0))

    def configure(self) -> str:
        """Change a config of the topic on all replicas."""
        change: dict[str, object] = self.dice.choice(
            [
                {"delete_retention_ms": self.dice.choice([0, 200, 5_000])},
                {"cleanup_policy": self.dice.choice(POLICIES)},
                {"message_timestamp_type": self.dice.choice(list(TimestampType))},
                {"segment_bytes": self.dice.choice([700, 3_000])},
            ]
        )
        self.config = replace(self.config, **change)  # type: ignore[arg-type]
        self.changes |= change.keys()
        for each in [self.archive, *self.replicas]:
            each.configure(self.config)
        return str(change)

    def copy_live(self) -> str:
        """Copy a log dir as docs/audits.md says: checkpoints now, the partition a moment later."""
        replica = self._any_up()
        if replica is None:
            return ""
        delay = self.dice.choice([0, 3, self.dice.randrange(60)])
        self.live_copy.begin(replica.root, delay)
        return f"{replica} after {delay} changes"

    def wait(self) -> str:
        self.now_ms += 1_500
        return "1500 ms"

    @property
    def rules(self) -> Rules:
        """The rules for an audit of the topic now, after retention has run."""
        config = self.config
        has_retention = DELETE in config.cleanup_policy
        policy = ",".join(sorted(config.cleanup_policy))
        return Rules(
            now_ms=self.now_ms,
            cleanup_policy=None if "cleanup_policy" in self.changes else policy,
            delete_retention_ms=config.delete_retention_ms,
            message_timestamp_after_max_ms=CLOCK_ERROR_MS,
            retention_ms=config.retention_ms if has_retention else None,
            retention_bytes=config.retention_bytes if has_retention else None,
            retention_slack_ms=0,
        )

    @property
    def roots(self) -> list[Path]:
        """The log dirs of the replicas, and the copy of one of them."""
        copies = [self.live_copy.root] if self.live_copy.is_complete else []
        return [*(each.root for each in self.replicas), *copies]

    def close(self) -> None:
        """Release the locks of all replicas."""
        for each in [self.archive, *self.replicas]:
            if each.is_up:
                each.die()
