"""Snapshots of a log's keys, for comparison with a later state of the log (edge).

A snapshot is a Parquet file with one row per partition: the end of the committed records, the time
of the snapshot, and their keys as a `KeyTable` exports them (48 bytes a key: hash, last offset,
fingerprint, timestamp, and whether it is a tombstone). It contains no key and no value.

A ledger is a producer's list of acknowledged records: JSON lines
`{"topic", "partition", "offset", "timestamp_ms", "key", "value"}`, key and value in base64 or null.
With `"headers"`, a list of pairs of a name and a value in base64 or null, these are compared, too.
"""

import base64
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from analytics.errors import AuditError
from analytics.file_store import OpenFile, read_bytes
from kafkawire.ids import TopicPartition
from kafkawire.key_table_loops import KeyLimitError
from kafkawire.native import KeyTable
from kafkawire.records import BATCH_HEADER_BYTES, BatchBuilder
from kafkawire.sentinels import MAX_OFFSET, NO_OFFSET
from logcheck.finding import Finding, Severity
from logcheck.log_scan import LogScan
from logcheck.log_view import Observer
from logcheck.preservation import Bounds, ReferenceTable
from logcheck.producer_batches import ProducerBatches
from logcheck.producer_files import read_aborted
from logcheck.replica_files import ReplicaFiles
from logcheck.rule import Rules
from logcheck.transaction_ranges import Transaction, TransactionRanges

SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("taken_ms", pa.int64()),
        ("first_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("key_table", pa.large_binary()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The keys of one partition at one time."""

    topic: str
    partition: int
    taken_ms: int
    first_offset: int
    end_offset: int
    """The end of the committed records; `NO_OFFSET` in a ledger, which does not know it."""
    key_table: bytes

    @property
    def is_ledger(self) -> bool:
        """Whether a producer has listed the keys, which are then not all keys of the log."""
        return self.end_offset == NO_OFFSET


def take_snapshot(replicas: Sequence[ReplicaFiles], file: Path, key_limit: int) -> int:
    """Write the keys of each replica's log to `file`, all or nothing; return their number.

    Raises:
        AuditError: a log is damaged, so that no later state can be compared with it, or has too
            many keys.
    """
    unfinished = file.with_name(f"{file.name}.tmp")
    try:
        count = _write_keys(replicas, unfinished, key_limit)
        # Closed after an error, the file would be a snapshot of the other logs.
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _write_keys(replicas: Sequence[ReplicaFiles], file: Path, key_limit: int) -> int:
    count = 0
    with parquet.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for replica in replicas:
            with _limit_named(TopicPartition(replica.topic, replica.partition)):
                table, first_offset, end_offset = _committed_keys(replica, key_limit)
            row = {
                "topic": replica.topic,
                "partition": replica.partition,
                "taken_ms": int(time.time() * 1000),
                "first_offset": first_offset,
                "end_offset": end_offset,
                "key_table": table.export(),
            }
            writer.write_table(pa.Table.from_pylist([row], schema=SCHEMA))
            count += table.key_count
    return count


def _committed_keys(replica: ReplicaFiles, key_limit: int) -> tuple[KeyTable, int, int]:
    """Return the keys of the committed records, the first offset and the end of these records.

    The end is the high watermark, or the first record of an open transaction below.
    """
    findings: list[Finding] = []
    aborted = read_aborted(replica, read_bytes, findings.append)
    end_offset = MAX_OFFSET if replica.high_watermark is None else replica.high_watermark
    batches = ProducerBatches()
    table, scan = _read_keys(replica, key_limit, end_offset, aborted, [batches], findings)
    decided_until = min((first for _, first, _ in batches.open()), default=MAX_OFFSET)
    end_offset = min(end_offset, scan.log_end_offset)
    indexed = TransactionRanges(aborted)
    unindexed = [each for each in batches.aborted() if not indexed.covers(*each[:2])]
    if unindexed or decided_until < end_offset:
        end_offset = min(end_offset, decided_until)
        aborted += unindexed
        table, _ = _read_keys(replica, key_limit, end_offset, aborted, [], findings)
    return table, scan.first_offset, end_offset


def _read_keys(
    replica: ReplicaFiles,
    key_limit: int,
    end_offset: int,
    aborted: Iterable[Transaction],
    others: Iterable[Observer],
    findings: list[Finding],
) -> tuple[KeyTable, LogScan]:
    table, scan = KeyTable(key_limit), LogScan(replica, findings.append, OpenFile)
    scan.run([ReferenceTable(table, end_offset, aborted), *others])
    errors = [each for each in findings if each.severity is Severity.ERROR]
    if errors:
        raise AuditError(f"a damaged log gives no snapshot; first error: {errors[0]}")
    return table, scan


@contextmanager
def _limit_named(partition: TopicPartition) -> Iterator[None]:
    """Translate the error of a table that is full."""
    try:
        yield
    except KeyLimitError as error:
        raise AuditError(
            f"{partition} has {error}: give a higher --rule key.limit, which takes more memory"
        ) from error


def open_snapshot(file: str, key_limit: int, folder: Path | None = None) -> str:
    """Return the snapshot file to compare with; a ledger (`.jsonl`, `.ndjson`) is converted to one.

    The conversion is written to `folder`, or to a temporary directory that the caller removes.

    Raises:
        AuditError: the file is not a snapshot, or a line of the ledger is malformed.
    """
    if file.endswith((".jsonl", ".ndjson")):
        place = folder or Path(tempfile.mkdtemp(prefix="ottla-ledger-"))
        target = place / "ledger.parquet"
        convert_ledger(file, target, key_limit)
        return str(target)
    try:
        is_ours = parquet.read_schema(file).equals(SCHEMA)
    except (OSError, pa.ArrowException) as error:
        raise AuditError(f"{file} is not from `ottla audit snapshot`: {error}") from error
    if not is_ours:
        raise AuditError(f"{file} is not from `ottla audit snapshot`: its columns differ")
    return file


def read_snapshot(file: str, topic: str, partition: int) -> Snapshot | None:
    """Return the snapshot of one partition in `file`, or None.

    Raises:
        AuditError: the file is not a snapshot.
    """
    wanted = [("topic", "==", topic), ("partition", "==", partition)]
    try:
        rows = parquet.read_table(file, schema=SCHEMA, filters=wanted).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise AuditError(f"{file} is not from `ottla audit snapshot`: {error}") from error
    return Snapshot(**rows[0]) if rows else None


def snapshot_partitions(file: str) -> set[TopicPartition]:
    """Return the partitions in a snapshot."""
    rows = parquet.read_table(file, columns=["topic", "partition"]).to_pylist()
    return {TopicPartition(row["topic"], row["partition"]) for row in rows}


def earlier_bounds(earlier: Snapshot, log_start: int, rules: Rules) -> Bounds:
    """Return the bounds for a comparison of a log with an earlier state.

    A newer record of a key excuses the absence of the older one. After more than
    `delete.retention.ms` a key may have been deleted and its tombstone removed: a missing record
    is then only a warning. A tombstone of the earlier state must stay until its own time is over.
    """
    return Bounds(
        start=earlier.first_offset,
        end=MAX_OFFSET,
        log_start=log_start,
        # Newer records may come from another producer: they excuse the absence of older ones.
        superseded_from=0 if earlier.is_ledger else earlier.end_offset,
        # Other old records may or may not have been compacted since: both are right.
        stale_below=0,
        due_tombstones_ms=rules.due_tombstones_ms,
        is_decided=rules.now_ms - earlier.taken_ms < rules.delete_retention_ms,
        # A producer does not know the timestamps that a broker assigned.
        compares_time=not earlier.is_ledger,
        may_lack_headers=earlier.is_ledger,
    )


def convert_ledger(ledger: str, file: Path, key_limit: int) -> None:
    """Convert a producer's ledger to a snapshot, which says nothing about unlisted records.

    Raises:
        AuditError: a line is malformed; the message names the line. Or there are too many keys.
    """
    rows: dict[TopicPartition, list[dict[str, Any]]] = defaultdict(list)
    try:
        with Path(ledger).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    row = _ledger_row(line, ledger, number)
                    rows[TopicPartition(row["topic"], row["partition"])].append(row)
    except OSError as error:
        raise AuditError(f"{ledger}: {error.strerror}") from error
    snapshots = [
        asdict(_ledger_snapshot(partition, each, key_limit)) for partition, each in rows.items()
    ]
    parquet.write_table(pa.Table.from_pylist(snapshots, schema=SCHEMA), file)


def _ledger_row(line: str, file: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
        fields = {"topic": row["topic"], "partition": int(row["partition"])}
        return fields | {
            "offset": int(row["offset"]),
            "timestamp_ms": int(row["timestamp_ms"]),
            "key": base64.b64decode(row["key"], validate=True),
            "value": _decoded(row["value"]),
            "headers": [(str(name), _decoded(value)) for name, value in row.get("headers", ())],
        }
    except (ValueError, KeyError, TypeError) as error:
        raise AuditError(f"{file}, line {number} is not a line of a ledger: {error!r}") from error


def _decoded(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value, validate=True)


def _ledger_snapshot(
    partition: TopicPartition, rows: Iterable[dict[str, Any]], key_limit: int
) -> Snapshot:
    ordered = sorted(rows, key=lambda row: row["offset"])
    table = KeyTable(key_limit)
    with _limit_named(partition):
        for row in ordered:
            builder = BatchBuilder()
            builder.append(row["timestamp_ms"], row["key"], row["value"], row["headers"])
            section = memoryview(builder.build())[BATCH_HEADER_BYTES:]
            table.note(section, 1, row["offset"], row["timestamp_ms"], None, MAX_OFFSET)
    return Snapshot(
        topic=partition.topic,
        partition=partition.partition,
        # Its producer has not looked at the log since, and others may have deleted its keys.
        taken_ms=max(row["timestamp_ms"] for row in ordered),
        first_offset=ordered[0]["offset"],
        end_offset=NO_OFFSET,
        key_table=table.export(),
    )
