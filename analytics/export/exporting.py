"""One run of an export, from log directories to Parquet files (composition)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from analytics.errors import DataLossError, RecordsError, RecordsUsageError
from analytics.export.manifest import Entry, Settings
from analytics.export.target import NewFile, Target, open_target
from analytics.records import COLUMNS
from analytics.records.offset_choice import INTERNAL_TOPICS, Isolation
from analytics.records.partition_log import PartitionLog, choose_log, find_candidates
from analytics.records.record_rows import LogSpan, RecordReader
from kafkawire.ids import TopicPartition
from logcheck.replica_files import ReplicaFiles

FILE_BYTES: Final = 256 * 1024 * 1024
# The folders of a file name its topic and its partition.
_COLUMNS: Final = tuple(name for name in COLUMNS if name not in ("topic", "partition"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The logs to export, and how."""

    directories: Sequence[str]
    target: Path
    topics: Collection[str] = ()
    """Topics to export; without any, all but the internal ones."""
    isolation: Isolation = Isolation.READ_COMMITTED
    to_log_end: bool = False
    skips_damage: bool = False
    file_bytes: int = FILE_BYTES
    """Size of the records in a file, before their compression."""


@dataclass(slots=True, kw_only=True)
class Exported:
    """The result for one partition."""

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    records: int = 0
    files: int = 0
    missing: list[str] = field(default_factory=list)
    """The offsets that retention had deleted before they were exported."""
    skipped: list[str] = field(default_factory=list)
    error: str | None = None


def run_export(request: ExportRequest) -> list[Exported]:
    """Export the records that are not exported yet; an error of one partition stays with it.

    Raises:
        RecordsUsageError: an option has a wrong value, or contradicts an earlier run.
        RecordsError: the target cannot be written, or there is nothing to export.
    """
    candidates = _candidates(request)
    try:
        with open_target(request.target) as target:
            target.begin(
                Settings(isolation_level=str(request.isolation), to_log_end=request.to_log_end)
            )
            return [
                _export(target, partition, replicas, request)
                for partition, replicas in candidates.items()
            ]
    except OSError as error:
        raise RecordsError(
            f"{error.filename or request.target} cannot be written: {error.strerror or error}; "
            "run the same command again to continue"
        ) from error


def _candidates(request: ExportRequest) -> Mapping[TopicPartition, Sequence[ReplicaFiles]]:
    topics = set(request.topics)

    def accepts(partition: TopicPartition) -> bool:
        return partition.topic in topics if topics else partition.topic not in INTERNAL_TOPICS

    candidates = find_candidates(request.directories, accepts)
    missing = topics - {partition.topic for partition in candidates}
    if missing:
        raise RecordsUsageError(f"no log of {', '.join(sorted(missing))} is in the directories")
    if not candidates:
        names = ", ".join(request.directories)
        raise RecordsUsageError(f"no partition was found in {names}; name a broker's log directory")
    return candidates


def _export(
    target: Target,
    partition: TopicPartition,
    replicas: Sequence[ReplicaFiles],
    request: ExportRequest,
) -> Exported:
    last = target.manifest.last_entry(partition)
    begin = 0 if last is None else last.next_offset
    result = Exported(
        topic=partition.topic,
        partition=partition.partition,
        first_offset=begin,
        next_offset=begin,
    )
    try:
        log = _choose_log(replicas, request)
        if last is not None:
            _check_same_log(last, log)
            if begin < log.start:
                result.missing.append(f"{begin}..{log.start - 1}")
        result.first_offset = result.next_offset = max(begin, log.start)
        if result.next_offset < log.end:
            _PartitionExport(target, log, request, result).run()
    except RecordsError as error:
        result.error = str(error)
    return result


def _choose_log(replicas: Sequence[ReplicaFiles], request: ExportRequest) -> PartitionLog:
    try:
        return choose_log(
            replicas,
            request.isolation,
            to_log_end=request.to_log_end,
            may_lose_data=request.skips_damage,
        )
    except OSError as error:
        raise _unreadable(error, replicas[0].directory) from error


def _unreadable(error: OSError, directory: str) -> RecordsError:
    return RecordsError(f"{error.filename or directory} cannot be read: {error.strerror or error}")


def _check_same_log(last: Entry, log: PartitionLog) -> None:
    """Refuse a log that cannot be the one that was exported before."""
    name = f"{log.topic}-{log.partition}"
    if last.topic_id is not None and log.topic_id is not None and last.topic_id != log.topic_id:
        raise DataLossError(
            f"{name} was deleted and created again since its last export (topic id {last.topic_id} "
            f"is now {log.topic_id}): export it to a new directory"
        )
    if log.log_end < last.next_offset:
        raise DataLossError(
            f"{name} ends at offset {log.log_end} in {log.directory}, but is exported up to "
            f"{last.next_offset}: the replica lags, or the topic was created again"
        )


class _PartitionExport:
    """The export of one partition's new records."""

    def __init__(
        self, target: Target, log: PartitionLog, request: ExportRequest, result: Exported
    ) -> None:
        self._target = target
        self._log = log
        self._result = result
        self._file_bytes = request.file_bytes
        span = LogSpan.of(log, result.next_offset, log.end, request.isolation)
        self._reader = RecordReader(
            span, _COLUMNS, time_unit="ms", may_lose_data=request.skips_damage, may_begin_later=True
        )

    def run(self) -> None:
        """Write files until the visible end of the log.

        Raises:
            DataLossError: a part of the log is damaged or gone.
            OSError: the target cannot be written.
        """
        batches = _Batches(self._reader, self._log.directory)
        try:
            while (schema := batches.schema()) is not None:
                self._write_file(batches, schema)
            if self._result.next_offset < self._log.end:
                # The last offsets are markers, aborted records, or compacted ones.
                self._commit(None, self._log.end, 0)
        finally:
            self._result.skipped += self._reader.lost
            self._result.missing += [f"{one}..{two}" for one, two in self._reader.deleted]

    def _write_file(self, batches: "_Batches", schema: object) -> None:
        first = self._result.next_offset
        folder = f"topic={self._log.topic}/partition={self._log.partition}"
        with self._target.new_file(folder, first, schema) as file:
            end = first
            while file.unpacked_bytes < self._file_bytes:
                batch = batches.take()
                if batch is None:
                    end = self._log.end
                    break
                file.write(batch)
                end = batch.column("offset")[-1].as_py() + 1
            size_bytes = file.finish()
        self._commit(file, end, size_bytes)

    def _commit(self, file: NewFile | None, next_offset: int, size_bytes: int) -> None:
        records = 0 if file is None else file.records
        self._target.commit(
            Entry(
                topic=self._log.topic,
                partition=self._log.partition,
                topic_id=self._log.topic_id,
                first_offset=self._result.next_offset,
                next_offset=next_offset,
                records=records,
                size_bytes=size_bytes,
            ),
            file,
        )
        self._result.next_offset = next_offset
        self._result.records += records
        self._result.files += file is not None


class _Batches:
    """The record batches of a log, one of which may be looked at in advance."""

    def __init__(self, reader: RecordReader, directory: str) -> None:
        self._batches = reader.batches()
        self._directory = directory
        self._ahead: list[Any] = []

    def schema(self) -> Any:
        """Return the schema of the next batch; None if there is none."""
        batch = self.take()
        if batch is None:
            return None
        self._ahead.append(batch)
        return batch.schema

    def take(self) -> Any:
        """Return the next batch; None if there is none.

        Raises:
            RecordsError: a file of the log cannot be read, or is damaged.
        """
        if self._ahead:
            return self._ahead.pop()
        try:
            return next(self._batches, None)
        except OSError as error:
            raise _unreadable(error, self._directory) from error
