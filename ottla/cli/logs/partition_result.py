"""Result of the verification of one partition. Decision: values only."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from kafkawire.ids import TopicPartition
from ottla.cli.logs.finding import Damage, Finding
from ottla.cli.logs.item import FindingItem, Item, Summary
from ottla.cli.logs.offset_index_check import PER_APPEND
from ottla.cli.logs.partition_check import Checkpoints
from ottla.cli.logs.replica_check import ReplicaBatches

TAILS = (Damage.TORN_TAIL, Damage.ZERO_TAIL)


@dataclass(slots=True)
class PartitionResult:
    """Findings, notes and counts of one partition directory."""

    directory: Path
    partition: TopicPartition | None = None
    segment_count: int = 0
    batch_count: int = 0
    record_count: int = 0
    first_offset: int | None = None
    log_end_offset: int = 0
    index_shapes: dict[str, int] = field(default_factory=dict)
    """Number of offset indexes by shape."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    cleaned_end: int = 0
    """End of the part of the log that a cleaner may have changed."""
    batches: ReplicaBatches | None = None
    """Batches for the comparison with other replicas, if there are any."""
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The directory's name, `TOPIC-PARTITION`."""
        return self.directory.name

    def report(self, finding: Finding) -> None:
        """Add an inconsistency."""
        self.findings.append(finding)

    def note(self, item: Item, *, strict_indexes: bool = False) -> None:
        """Add the finding or the counts of an item of a file's dump."""
        if isinstance(item, FindingItem):
            self.report(item.finding)
        elif isinstance(item, Summary):
            self.batch_count += item.counts.get("batch", 0)
            self.record_count += item.counts.get("record", 0)
            if self.first_offset is None:
                self.first_offset = item.first_offset
            if item.shape:
                self.index_shapes[item.shape] = self.index_shapes.get(item.shape, 0) + 1
            if item.shape == PER_APPEND and strict_indexes:
                text = f"{PER_APPEND}, but every entry should refer to the batch at its position"
                self.report(
                    Finding(damage=Damage.OLD_INDEX_SHAPE, file=item.file, position=0, text=text)
                )

    def demote_tail(self, last_segment: str) -> None:
        """Turn findings about the torn or zero tail of `last_segment` into notes."""
        self.notes += [f for f in self.findings if f.file == last_segment and f.damage in TAILS]
        self.findings = [finding for finding in self.findings if finding not in self.notes]

    def without_batches(self) -> "PartitionResult":
        """Return a copy without the batches, which only a comparison needs."""
        return replace(self, batches=None)
