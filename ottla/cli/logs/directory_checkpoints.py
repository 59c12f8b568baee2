"""Reads the offset checkpoints of a log directory. Edge: opens its files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkawire.ids import TopicPartition
from logcheck.checkpoint_text import read_offset_checkpoint
from logcheck.file_name import HIGH_WATERMARK, OFFSET_CHECKPOINTS
from logcheck.finding import Check, Damage, Finding, Severity
from ottla.cli.logs.file_source import read_text


@dataclass(frozen=True, slots=True)
class LogDirectoryCheckpoints:
    """Offset checkpoints of a log directory, by the names of their files."""

    directory: Path
    offsets: Mapping[str, Mapping[TopicPartition, int]]
    reported: list[Finding]

    def offset_in(self, file: str, partition: TopicPartition | None) -> int | None:
        """Return the offset of a partition in a checkpoint file, if there is one."""
        return None if partition is None else self.offsets.get(file, {}).get(partition)

    def place_of(self, file: str) -> str:
        """Return the path of a checkpoint file."""
        return str(self.directory / file)

    def check_directories(self, present: set[TopicPartition]) -> None:
        """Report entries of partitions without a directory; in the high watermarks, only note."""
        for file, rows in self.offsets.items():
            # High watermarks are written periodically, also after a partition was deleted.
            severity = Severity.NOTE if file == HIGH_WATERMARK else Severity.ERROR
            for partition in sorted(rows.keys() - present):
                finding = Finding(
                    check=Check.CHECKPOINTS,
                    damage=Damage.PARTITION_MISSING,
                    file=self.place_of(file),
                    position=0,
                    expected=f"a directory {partition}",
                    found="none; the next start drops the entry",
                    severity=severity,
                )
                self.reported.append(finding)


def read_checkpoints(log_directory: Path) -> LogDirectoryCheckpoints:
    """Return the existing offset checkpoints of `log_directory`."""
    reported: list[Finding] = []
    offsets = {
        file: read_offset_checkpoint(read_text(path), str(path), reported.append)
        for file in OFFSET_CHECKPOINTS
        if (path := log_directory / file).exists()
    }
    return LogDirectoryCheckpoints(log_directory, offsets, reported)
