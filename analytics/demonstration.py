"""Composition: audits of one topic on all its replicas, and one violation that must be named.

What `make demo` shows at its end, on the files of the cluster that it has just run.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from analytics.batch_walk import Batch, Walk
from analytics.errors import AuditError
from analytics.file_store import OpenFile
from analytics.plan import Audit
from analytics.run import Request, Result, run_audit

MASTER: Final = "local[2]"
Say = Callable[[str], None]


def demonstrate_audits(log_directories: Sequence[Path], topic: str, work: Path, say: Say) -> bool:
    """Audit `topic` in each broker's log directory; then show that a planted violation is found.

    Returns whether the logs were clean and the violation was named. Takes copies by hard links into
    `work`, so that brokers may go on; nothing of theirs is changed.

    Raises:
        AuditError: audits cannot run here, or no broker has the topic.
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
        say("nothing is compacted yet, so there is nothing to spoil")
        return is_clean
    say(f"planted: the last cleaned batch of {place} is taken out of a copy")
    result = _audit(Audit.COMPACTION, [spoiled], copies[0])
    say(result.verdict.line())
    named = [row for row in result.findings if row["what"] in ("lost_key", "tombstone_gone_early")]
    for row in named[:3]:
        say(f"  {row['what']} at offset {row['offset']}: expected {row['expected']}")
    return is_clean and bool(named)


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
    """A copy by hard links of the topic's partitions; None where there is none.

    Checkpoints are copied first: a cleaner that goes on meanwhile then is further than they say,
    never less far.
    """
    partitions = sorted(
        path
        for path in directory.glob(f"{topic}-*")
        if path.is_dir() and path.name.removeprefix(f"{topic}-").isdecimal()
    )
    if not partitions:
        return None
    target.mkdir(parents=True)
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
        # Deleted or renamed by its broker since it was listed.
        return


def plant_lost_batch(root: Path, target: Path) -> str | None:
    """Copy the logs in `root`, less one batch below a cleaner's point; say where it was."""
    shutil.copytree(root, target)
    checkpoint = target / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text(encoding="utf-8").splitlines()[2:] if checkpoint.exists() else []
    for line in lines:
        topic, partition, point = line.split()
        for log in sorted((target / f"{topic}-{partition}").glob("*.log"), reverse=True):
            if (cut := _last_batch_below(log, int(point))) is not None:
                data = log.read_bytes()
                end = cut.position + len(cut.data)
                log.write_bytes(data[: cut.position] + data[end:])
                return f"{log.parent.name}/{log.name}"
    return None


def _last_batch_below(log: Path, point: int) -> Batch | None:
    found = None
    with OpenFile(str(log)) as source:
        for item in Walk(source, str(log), lambda _: None, is_tail_allowed=True).items():
            is_cut = isinstance(item, Batch) and item.header.last_offset < point
            if is_cut and isinstance(item, Batch) and item.header.record_count:
                found = item
    return found
