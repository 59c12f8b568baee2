"""Reads the offset checkpoints of a log directory. Edge: opens their files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkawire.ids import TopicPartition
from logcheck.checkpoint_check import Checkpoints
from logcheck.checkpoint_text import read_offset_checkpoint
from logcheck.file_name import (
    CLEANER_POINT,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
)
from logcheck.finding import Check, Damage, Finding, Severity
from ottla.cli.logs.file_source import read_text

CHECKPOINT_FILES: Final = {
    LOG_START: "log_start",
    RECOVERY_POINT: "recovery_point",
    HIGH_WATERMARK: "high_watermark",
    CLEANER_POINT: "cleaner_point",
}


@dataclass(frozen=True, slots=True)
class LogDirectoryCheckpoints:
    """Offset checkpoints of a log directory, by the names of their files."""

    directory: Path
    offsets: Mapping[str, Mapping[TopicPartition, int]]
    reported: list[Finding]

    def of(self, partition: TopicPartition | None) -> Checkpoints:
        """Return the checkpoints of one partition; all are None without a partition."""
        if partition is None:
            return Checkpoints()
        return Checkpoints(
            **{CHECKPOINT_FILES[file]: rows.get(partition) for file, rows in self.offsets.items()}
        )

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
        for file in CHECKPOINT_FILES
        if (path := log_directory / file).exists()
    }
    return LogDirectoryCheckpoints(log_directory, offsets, reported)
