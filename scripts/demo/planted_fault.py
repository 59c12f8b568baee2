"""Audits of one topic on all its replicas, and of one planted violation (composition).

`make demo` ends with them, on the files of the cluster that it has just run.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from analytics.errors import AuditError
from analytics.file_store import OpenFile
from analytics.plan import Audit
from analytics.run import Request, Result, run_audit
from kafkawire.records import read_records
from logcheck.batch_walk import Batch, Walk

MASTER: Final = "local[2]"
Say = Callable[[str], None]


def demonstrate_audits(log_directories: Sequence[Path], topic: str, work: Path, say: Say) -> bool:
    """Audit `topic` in each broker's log directory, then a copy with a planted violation.

    Return whether the logs are clean and the audit named the violation. The audits read copies by
    hard links in `work`: the brokers may keep running, and their files do not change.

    Raises:
        AuditError: audits cannot run here, or no log directory contains the topic.
    """
    copies = [
        copy
        for number, directory in enumerate(log_directories)
        if (copy := link_topic(directory, topic, work / f"replica-{number}")) is not None
    ]
    if not copies:
        raise AuditError(f"no log directory holds the topic {topic}")
    is_clean = True
    for audit in (Audit.INTEGRITY, Audit.REPLICAS, Audit.COMPACTION):
        result = _audit(audit, copies, None)
        is_clean = is_clean and result.verdict.is_clean
        say(result.verdict.line())
    spoiled = work / "spoiled"
    place = plant_lost_batch(copies[0], spoiled)
    if place is None:
        say("no log has been compacted yet, so no violation was planted")
        return is_clean
    say(f"planted: a cleaned batch of {place} with the last record of a key is removed from a copy")
    result = _audit(Audit.COMPACTION, [spoiled], copies[0])
    say(result.verdict.line())
    named = [row for row in result.findings if row["what"] == "lost_key"]
    for row in named[:3]:
        say(f"  {row['what']} at offset {row['offset']}: expected {row['expected']}")
    return is_clean and bool(named) and not result.verdict.is_clean


def _audit(audit: Audit, directories: Sequence[Path], against: Path | None) -> Result:
    return run_audit(
        Request(
            audit=audit,
            directories=[str(directory) for directory in directories],
            against=None if against is None else str(against),
            master=MASTER,
        )
    )


def link_topic(directory: Path, topic: str, target: Path) -> Path | None:
    """Copy the topic's partitions by hard links; return the copy, None if there is no partition."""
    partitions = sorted(
        path
        for path in directory.glob(f"{topic}-*")
        if path.is_dir() and path.name.removeprefix(f"{topic}-").isdecimal()
    )
    if not partitions:
        return None
    target.mkdir(parents=True)
    # Checkpoints first: a running cleaner is then ahead of its copied checkpoint, never behind.
    for file in directory.glob("*-checkpoint"):
        lines = file.read_text(encoding="utf-8").splitlines()[2:]
        own = [line for line in lines if line.split()[0] == topic]
        text = "\n".join(["0", str(len(own)), *own, ""])
        (target / file.name).write_text(text, encoding="utf-8")
    for partition in partitions:
        shutil.copytree(partition, target / partition.name, copy_function=_link)
    return target


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        # The broker deleted or renamed the file after the directory was listed.
        return


def plant_lost_batch(root: Path, target: Path) -> str | None:
    """Copy the logs in `root` without a batch that a cleaner must keep; return its segment.

    The batch lies below a cleaner's point, and holds the last record of a key in the whole log.
    """
    shutil.copytree(root, target)
    checkpoint = target / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text(encoding="utf-8").splitlines()[2:] if checkpoint.exists() else []
    for line in lines:
        topic, partition, point = line.split()
        logs = sorted((target / f"{topic}-{partition}").glob("*.log"))
        last = {
            key: offset for log in logs for each in _batches(log) for key, offset in _keys(each)
        }
        for log in reversed(logs):
            for each in _batches(log):
                is_needed = any(last[key] == offset for key, offset in _keys(each))
                if is_needed and each.header.last_offset < int(point):
                    data = log.read_bytes()
                    end = each.position + len(each.data)
                    log.write_bytes(data[: each.position] + data[end:])
                    return f"{log.parent.name}/{log.name}"
    return None


def _batches(log: Path) -> list[Batch]:
    with OpenFile(str(log)) as source:
        items = Walk(source, str(log), lambda _: None, is_tail_allowed=True).items()
        return [
            each._replace(data=memoryview(bytes(each.data)))
            for each in items
            if isinstance(each, Batch)
        ]


def _keys(batch: Batch) -> list[tuple[bytes | None, int]]:
    return [(record.key, record.offset) for record in read_records(batch.data)]
