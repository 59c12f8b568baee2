"""Result of the verification of one partition (decision)."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from kafkawire.ids import TopicPartition
from logcheck.finding import Finding, Severity
from logcheck.replica import Replica


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
    index_shapes: Counter[str] = field(default_factory=Counter)
    """Number of offset indexes by shape."""
    replica: Replica | None = None
    """The log and its batches, if other replicas are compared with them."""
    reported: list[Finding] = field(default_factory=list)

    def report(self, finding: Finding) -> None:
        """Add a finding."""
        self.reported.append(finding)

    @property
    def name(self) -> str:
        """The directory's name, `TOPIC-PARTITION`."""
        return self.directory.name

    @property
    def findings(self) -> list[Finding]:
        """The inconsistencies."""
        return [each for each in self.reported if each.severity is not Severity.NOTE]

    @property
    def notes(self) -> list[Finding]:
        """The findings that are normal traces of a crash, a cleaner or a running broker."""
        return [each for each in self.reported if each.severity is Severity.NOTE]

    def without_batches(self) -> "PartitionResult":
        """Return a copy without the batches, which only a comparison needs."""
        return replace(self, replica=None)
