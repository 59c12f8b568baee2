"""Keys of the log directories and of their maintenance (decision).

`storage.config.log_config` declares the defaults of topic configs (`log.segment.bytes` and others),
together with the keys of topics.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from broker.config.declared_key import (
    KeyRule,
    boolean,
    integer,
    long,
    optional_integer,
    optional_string,
    real,
    string,
)
from kafkawire.units import MIB
from storage.config.config_key import LONG_MAX, at_least

LEAST_MAP_BYTES: Final = MIB
"""A key map of one cleaner must be larger, as in Kafka."""


@dataclass(frozen=True, kw_only=True)
class LogKeys:
    """Location of the logs, and intervals of flushes, checks and checkpoints."""

    log_dir: str = string("/tmp/kafka-logs", "Log directory, when log.dirs is absent.")
    log_dirs: str | None = optional_string("Log directories, separated by commas.")
    num_recovery_threads_per_data_dir: int = integer(
        1, "Number of threads that recover the logs of one directory at start.", at_least(1)
    )
    num_replica_alter_log_dirs_threads: int | None = optional_integer(
        "Number of concurrent replica moves between log directories; by default one per directory."
    )
    log_roll_hours: int = integer(168, "log.roll.ms in hours.", at_least(1))
    log_roll_jitter_hours: int = integer(0, "log.roll.jitter.ms in hours.", at_least(0))
    log_retention_minutes: int | None = optional_integer(
        "log.retention.ms in minutes: at least 1, or negative to keep all."
    )
    log_retention_hours: int = integer(
        168, "log.retention.ms in hours: at least 1, or negative to keep all."
    )
    log_retention_check_interval_ms: int = long(
        300_000, "Interval between checks for old segments.", at_least(1)
    )
    log_initial_task_delay_ms: int = long(
        30_000, "Delay after the start before the first periodic task on logs.", at_least(0)
    )
    log_flush_scheduler_interval_ms: int = long(
        LONG_MAX, "Interval between checks of logs for flush.ms; by default never: replication and "
        "the system's write-back make records durable, fsync does not.",
    )  # fmt: skip
    log_flush_offset_checkpoint_interval_ms: int = integer(
        60_000, "Interval between checkpoints of recovery points.", at_least(0)
    )
    log_flush_start_offset_checkpoint_interval_ms: int = integer(
        60_000, "Interval between checkpoints of log start offsets.", at_least(0)
    )
    log_dir_failure_timeout_ms: int = long(
        30_000,
        "No effect: the broker reports a failed log directory until the controller is notified.",
        at_least(1),
    )
    log_dir_reserve_bytes: int = long(
        8 * 1024 * 1024,
        "Space reserved in each log directory by a file that is removed when the disk is full. The "
        "broker needs it for an orderly stop and recovery. Not a key of Kafka.",
        at_least(0),
    )  # fmt: skip
    log_cleaner_enable: bool = boolean(True, "Whether compacted topics are compacted.")
    log_cleaner_threads: int = integer(1, "Number of concurrent compactions.", at_least(0))
    log_cleaner_io_max_bytes_per_second: float = real(
        1.7976931348623157e308,
        "Maximum bytes per second that compaction reads and writes; 0 or less pauses it.",
    )
    log_cleaner_dedupe_buffer_size: int = long(
        128 * 1024 * 1024, "Bytes for the key map of all compactions together."
    )
    log_cleaner_io_buffer_size: int = integer(
        512 * 1024, "Bytes for the read and write buffers of all compactions.", at_least(0)
    )
    log_cleaner_io_buffer_load_factor: float = real(
        0.9, "Maximum load factor of a compaction's key map."
    )
    log_cleaner_backoff_ms: int = long(
        15_000, "Pause of the cleaner when there is nothing to compact.", at_least(0)
    )

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The log directories, in the order given."""
        text = self.log_dir if self.log_dirs is None else self.log_dirs
        return tuple(item.strip() for item in text.split(",") if item.strip())

    def rules(self) -> Iterator[KeyRule]:
        """Yield the rules between the keys."""
        yield (
            "log.dirs", self.log_dirs, bool(self.log_directories),
            "must name at least one directory",
        )  # fmt: skip
        share_bytes = self.log_cleaner_dedupe_buffer_size // max(1, self.log_cleaner_threads)
        yield (
            "log.cleaner.dedupe.buffer.size", self.log_cleaner_dedupe_buffer_size,
            share_bytes > LEAST_MAP_BYTES,
            f"must be more than {LEAST_MAP_BYTES} for each of log.cleaner.threads="
            f"{self.log_cleaner_threads}",
        )  # fmt: skip
