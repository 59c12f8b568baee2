"""Edge: what a log's keys were, kept to hold a later state of the log against it.

A snapshot is a Parquet file with a row per partition and shard: where the log ended, when it was
taken, and its keys as a `KeyTable` exports them (40 bytes a key: hash, last offset, fingerprint of
the value or a tombstone's time). No key and no value stands in it.

A ledger is what a producer wrote down of what was acknowledged: JSON lines
`{"topic", "partition", "offset", "timestamp_ms", "key", "value"}`, key and value in base64 or null.
"""

import base64
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from analytics.checks.preservation import Bounds, ReferenceTable
from analytics.errors import AuditError
from analytics.log_scan import LogScan
from analytics.reference import read_aborted
from analytics.task import MAX_OFFSET, ReplicaFiles, Rules
from kafkawire.columns_scanner import KeyTable
from kafkawire.ids import TopicPartition
from kafkawire.records import BATCH_HEADER_BYTES, BatchBuilder

SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("taken_ms", pa.int64()),
        ("first_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("keys", pa.large_binary()),
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
    keys: bytes


def take_snapshot(replicas: Sequence[ReplicaFiles], file: Path, key_limit: int) -> int:
    """Write the keys of each replica's log; return how many there are.

    Raises:
        AuditError: a log is damaged, so that it is no measure for another one.
    """
    count = 0
    with parquet.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for replica in replicas:
            findings: list[Any] = []
            table, scan = KeyTable(key_limit), LogScan(replica, findings.append)
            aborted = read_aborted(replica, findings.append)
            scan.run([ReferenceTable(table, MAX_OFFSET, aborted)])
            errors = [each for each in findings if each.severity == "error"]
            if errors:
                raise AuditError(f"no snapshot of a damaged log; first: {errors[0]}")
            row = {
                "topic": replica.topic,
                "partition": replica.partition,
                "taken_ms": int(time.time() * 1000),
                "first_offset": scan.first_offset,
                "end_offset": scan.log_end_offset,
                "keys": table.export(),
            }
            writer.write_table(pa.Table.from_pylist([row], schema=SCHEMA))
            count += table.key_count
    return count


def check_snapshot(file: str) -> None:
    """Refuse a file that is no snapshot, before workers are sent to read it.

    Raises:
        AuditError: it is none.
    """
    try:
        is_ours = parquet.read_schema(file).equals(SCHEMA)
    except (OSError, pa.ArrowException) as error:
        raise AuditError(f"{file} is no snapshot of `ottla audit snapshot`: {error}") from error
    if not is_ours:
        raise AuditError(f"{file} is no snapshot of `ottla audit snapshot`: other columns")


def read_snapshot(file: str, topic: str, partition: int) -> Snapshot | None:
    """One partition's snapshot in `file`; None if it holds none.

    Raises:
        AuditError: it is no snapshot.
    """
    wanted = [("topic", "==", topic), ("partition", "==", partition)]
    try:
        rows = parquet.read_table(file, schema=SCHEMA, filters=wanted).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise AuditError(f"{file} is no snapshot of `ottla audit snapshot`: {error}") from error
    return Snapshot(**rows[0]) if rows else None


def earlier_bounds(earlier: Snapshot, log_start: int, rules: Rules) -> Bounds:
    """How an earlier state can judge a log.

    A newer record of a key excuses the older one's absence. When more than `delete.retention.ms`
    have passed, a key may have been deleted and its tombstone removed since: what is missing is
    then a warning. A tombstone of the earlier state must stay until its own time is over.
    """
    return Bounds(
        start=earlier.first_offset,
        end=MAX_OFFSET,
        log_start=log_start,
        superseded_from=earlier.end_offset,
        # What the log held besides was compacted since, or was not: both are right.
        stale_below=0,
        tombstones_after_ms=rules.now_ms - rules.delete_retention_ms,
        is_decided=rules.now_ms - earlier.taken_ms < rules.delete_retention_ms,
    )


def is_ledger(file: str) -> bool:
    """Whether `file` is named as a ledger is: `.jsonl` or `.ndjson`."""
    return file.endswith((".jsonl", ".ndjson"))


def convert_ledger(ledger: str, file: Path, key_limit: int) -> None:
    """Write a producer's ledger as a snapshot that claims nothing of what the ledger lacks.

    Raises:
        AuditError: a line is not what it has to be; the message names it.
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
            "value": None
            if row["value"] is None
            else base64.b64decode(row["value"], validate=True),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise AuditError(f"{file}, line {number} is no ledger's: {error!r}") from error


def _ledger_snapshot(
    partition: TopicPartition, rows: Iterable[dict[str, Any]], key_limit: int
) -> Snapshot:
    ordered = sorted(rows, key=lambda row: row["offset"])
    table = KeyTable(key_limit)
    for row in ordered:
        builder = BatchBuilder()
        builder.append(row["timestamp_ms"], row["key"], row["value"])
        section = memoryview(builder.build())[BATCH_HEADER_BYTES:]
        table.note(section, 1, row["offset"], row["timestamp_ms"], None, MAX_OFFSET)
    return Snapshot(
        topic=partition.topic,
        partition=partition.partition,
        taken_ms=MAX_OFFSET,
        first_offset=ordered[0]["offset"],
        # Whatever is newer may be another producer's: it excuses the absence of what is older.
        end_offset=0,
        keys=table.export(),
    )
