"""A random log, made from a seed, with every kind of batch that compaction distinguishes.

It has records with and without value, from plain, idempotent and transactional producers, in every
codec. Its transactions commit, abort, overlap and span segments, and have indexes. The last batch
before each roll has a unique key.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkawire.compression import Codec
from kafkawire.ids import Offset
from kafkawire.records import ControlType, build_control_batch
from storage.disk.layout import TRANSACTION_INDEX_SUFFIX, segment_file
from storage.log.log import Log
from storage.segment.transaction_index import AbortedTransaction, write_aborted
from tests.unit.storage.compacting import KeyValue, append_at, append_batch, keyed_batch
from tests.unit.storage.logs import NOW_MS

PLAIN, IDEMPOTENT, TRANSACTIONAL = range(3)


@dataclass
class Producer:
    producer_id: int
    kind: int
    epoch: int = 0
    sequence: int = 0
    began_at: int | None = None


@dataclass
class BusyLog:
    """A writer of random batches to `log`, driven by `dice`."""

    log: Log
    dice: random.Random
    codecs: Sequence[Codec] = (Codec.NONE,)
    key_count: int = 12
    producers: list[Producer] = field(default_factory=list)
    aborted: dict[int, list[AbortedTransaction]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = [PLAIN, IDEMPOTENT, IDEMPOTENT, TRANSACTIONAL, TRANSACTIONAL, TRANSACTIONAL]
        self.producers = [Producer(number + 100, kind) for number, kind in enumerate(kinds)]
        self.unique = 0

    def append_some(self, step_count: int) -> None:
        for _ in range(step_count):
            producer = self.dice.choice(self.producers)
            if producer.began_at is not None and self.dice.random() < 0.3:
                self.end_transaction(producer)
            else:
                self.append(producer, self.records())
            if self.dice.random() < 0.08:
                self.roll()

    def roll(self) -> None:
        self.unique += 1
        self.append(self.producers[0], [(b"unique-%d" % self.unique, b"v")])
        self.log.upkeep.roll(NOW_MS)

    def finish(self) -> None:
        """End all open transactions and close the segment."""
        for producer in self.producers:
            if producer.began_at is not None:
                self.end_transaction(producer)
        self.roll()

    def records(self) -> list[KeyValue]:
        dice = self.dice
        return [
            (
                b"key-%d" % dice.randrange(self.key_count),
                None if dice.random() < 0.2 else b"%d" % dice.randrange(10**6) * dice.randint(1, 9),
            )
            for _ in range(dice.randint(1, 6))
        ]

    def append(self, producer: Producer, records: list[KeyValue]) -> None:
        dice = self.dice
        if producer.kind == IDEMPOTENT and dice.random() < 0.1:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        named = (producer.producer_id, producer.epoch, producer.sequence)
        batch = keyed_batch(
            records,
            times_ms=[NOW_MS + dice.randrange(-500, 500) for _ in records],
            codec=dice.choice(self.codecs),
            producer=None if producer.kind == PLAIN else named,
            is_transactional=producer.kind == TRANSACTIONAL,
        )
        info = append_batch(self.log, batch)
        producer.sequence += len(records)
        if producer.kind == TRANSACTIONAL and producer.began_at is None:
            producer.began_at = info.base_offset

    def end_transaction(self, producer: Producer) -> None:
        assert producer.began_at is not None
        kind = self.dice.choice(list(ControlType))
        if self.dice.random() < 0.15:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        marker = build_control_batch(
            kind,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
        )
        # Appended as by a follower: only a transaction coordinator writes a marker to a leader.
        offset = self.log.log_end_offset
        append_at(self.log, marker, offset)
        began_at, producer.began_at = producer.began_at, None
        if kind is ControlType.ABORT:
            opened = [each.began_at for each in self.producers if each.began_at is not None]
            stable = Offset(min(opened, default=offset + 1))
            found = AbortedTransaction(producer.producer_id, Offset(began_at), offset, stable)
            self.note_aborted(found)

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        base_offset = self.log.segments[-1].base_offset
        entries = self.aborted.setdefault(base_offset, [])
        entries.append(aborted)
        path = segment_file(self.log.directory, base_offset, TRANSACTION_INDEX_SUFFIX)
        assert path.read_bytes() == write_aborted(entries), "the index as written by the log"
