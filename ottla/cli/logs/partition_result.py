"""Result of the verification of one partition (decision)."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from kafkawire.ids import TopicPartition
from logcheck.finding import Finding, Severity
from logcheck.finding_list import FindingList
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
    compared: FindingList | None = None
    """The findings of this comparison."""
    reported: list[Finding] = field(default_factory=list)

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

    @property
    def unlisted(self) -> dict[str, int]:
        """By severity: the number of findings that are only counted, and not listed."""
        counts = Counter[str]()
        for finding in self.reported:
            counts[finding.severity] += finding.more
        return {severity: counts[severity] for severity in Severity if counts[severity]}

    def without_batches(self) -> "PartitionResult":
        """Return a copy with the findings of a comparison, and without its batches."""
        found = [] if self.compared is None else self.compared.rows()
        return replace(self, replica=None, compared=None, reported=[*self.reported, *found])
