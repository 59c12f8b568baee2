"""Compaction of a topic by the brokers, and an audit of all its replicas (composition)."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from analytics.errors import AuditError, SparkMissingError
from scripts.demo.cluster import Cluster
from scripts.demo.console import WAIT_LIMIT_S, DemoError, note, title
from scripts.demo.planted_fault import demonstrate_audits

TOPIC: Final = "stock"
PARTITIONS: Final = 2
RECORDS: Final = 200_000
KEYS: Final = 5_000
RARE_KEYS: Final = 100
SEGMENT_BYTES: Final = 1_048_576
SETTINGS: Final = (
    "cleanup.policy=compact",
    f"segment.bytes={SEGMENT_BYTES}",
    "min.cleanable.dirty.ratio=0.01",
)
POLL_INTERVAL_S: Final = 0.1


def audit_a_compacted_topic(cluster: Cluster, work: Path) -> None:
    """Have the cluster compact a topic, audit its files, and show that a planted fault is found.

    Raises:
        DemoError: no compaction happened, an audit had findings, or it missed the planted fault.
    """
    title("A compacted topic keeps the last record of each key")
    _write(cluster, work / "stock.txt")
    _wait_until_cleaned(cluster)
    title("Spark audits the files of all replicas, while the brokers run")
    prove_from_files(cluster.log_directories, work / "audit")


def prove_from_files(log_directories: Sequence[Path], work: Path) -> None:
    """Audit the topic's replicas; without Spark or Java, print that the audit is skipped.

    Raises:
        DemoError: the audits could not run, had findings, or missed the planted fault.
    """
    try:
        is_proven = demonstrate_audits(log_directories, TOPIC, work, _say)
    except SparkMissingError as error:
        note(f"  the audit is skipped: {error}")
        return
    except AuditError as error:
        raise DemoError(f"the audit failed: {error}") from error
    if not is_proven:
        raise DemoError("the logs are not clean, or the planted fault was not reported")
    note("  the logs are clean, and the planted fault was reported", style="green")


def _say(line: str) -> None:
    note(f"  {line}")


def _write(cluster: Cluster, lines: Path) -> None:
    # The first items are written once, so that compaction must keep their records.
    names = [
        *(f"rare-{n}" for n in range(RARE_KEYS)),
        *(f"item-{n * 7 % KEYS}" for n in range(RECORDS)),
    ]
    lines.write_text("".join(f"{name}:{n} pieces\n" for n, name in enumerate(names[:RECORDS])))
    settings = [part for setting in SETTINGS for part in ("--config", setting)]
    shape = ("-p", str(PARTITIONS), "-r", str(len(cluster.log_directories)))
    cluster.commands.ask_broker("topics", "create", TOPIC, *shape, *settings)
    cluster.commands.ask_broker("produce", TOPIC, lines.name, "--key-separator", ":")


def _wait_until_cleaned(cluster: Cluster) -> None:
    started_s = time.monotonic()
    while not all(_is_ready(directory) for directory in cluster.log_directories):
        if time.monotonic() - started_s > WAIT_LIMIT_S:
            raise DemoError(f"not every replica was compacted within {WAIT_LIMIT_S:g} s")
        time.sleep(POLL_INTERVAL_S)
    note(f"  every replica was compacted after {time.monotonic() - started_s:.1f} s")


def _is_ready(log_directory: Path) -> bool:
    """Whether the broker has cleaned each partition of the topic and stored its high watermark.

    Audits compare nothing above a high watermark, which brokers store every few seconds.
    """
    cleaned = _offsets_in(log_directory / "cleaner-offset-checkpoint")
    committed = _offsets_in(log_directory / "replication-offset-checkpoint")
    return len(cleaned) == PARTITIONS and all(
        0 < point <= committed.get(partition, 0) for partition, point in cleaned.items()
    )


def _offsets_in(checkpoint: Path) -> dict[str, int]:
    """Return the offsets of the topic's partitions in a checkpoint."""
    if not checkpoint.exists():
        return {}
    lines = checkpoint.read_text(encoding="utf-8").splitlines()
    entries = [line.split() for line in lines if line.startswith(f"{TOPIC} ")]
    return {partition: int(offset) for _topic, partition, offset in entries}
