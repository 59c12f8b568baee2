"""Edge: the listing of log directories: partitions, segments, and the checkpoints beside them.

A directory is either a broker's log directory, which contains partitions, or the directory of one
partition. Each partition in it is one replica; several directories are several replicas.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from analytics.file_store import Entry, list_directory, read_bytes
from analytics.place import child_of, name_of, parent_of, without_end
from kafkawire.ids import TopicPartition
from logcheck.checkpoint_text import read_offset_checkpoint
from logcheck.file_name import (
    CLEANER_POINT,
    EPOCH_CHECKPOINT,
    HIGH_WATERMARK,
    LOG_START,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINT,
    is_foreign,
    parse_offset_file,
    parse_partition_directory,
)
from logcheck.finding import Check, Damage, Finding, Report
from logcheck.replica_files import ReplicaFiles, SegmentFiles

Checkpoints = dict[str, dict[TopicPartition, int]]
MAX_PARTITIONS: Final = 1_000_000


def find_replicas(directory: str, report: Report) -> list[ReplicaFiles]:
    """Return the replicas in a directory.

    A faulty checkpoint or partition directory is reported and does not hide the others.

    Raises:
        OSError: the directory itself cannot be listed.
    """
    root = without_end(directory)
    entries = list_directory(root)
    own = parse_partition_directory(name_of(root))
    if any(parse_offset_file(entry.name) for entry in entries):
        if own is None:
            report(_unnamed(root))
            return []
        folder = parent_of(root)
        beside = _list_quietly(folder)
        checkpoints = _read_checkpoints(beside, report)
        return [_replica(own, folder, root, entries, checkpoints)]
    checkpoints = _read_checkpoints(entries, report)
    replicas = []
    for entry in entries:
        partition = parse_partition_directory(entry.name)
        if not entry.is_directory or partition is None:
            continue
        try:
            files = list_directory(entry.path)
        except OSError as error:
            report(_unreadable(entry.path, partition, root, error))
            continue
        replicas.append(_replica(partition, root, entry.path, files, checkpoints))
    _check_directories(replicas, checkpoints, root, report)
    return replicas


def group_by_partition(
    replicas: Sequence[ReplicaFiles],
) -> dict[TopicPartition, list[ReplicaFiles]]:
    """Return the replicas of each partition, in the order of `replicas`."""
    groups: dict[TopicPartition, list[ReplicaFiles]] = defaultdict(list)
    for replica in replicas:
        groups[TopicPartition(replica.topic, replica.partition)].append(replica)
    return dict(sorted(groups.items()))


def _replica(
    partition: TopicPartition,
    root: str,
    directory: str,
    entries: Sequence[Entry],
    checkpoints: Checkpoints,
) -> ReplicaFiles:
    files: dict[int, dict[str, Entry]] = defaultdict(dict)
    for entry in entries:
        name = parse_offset_file(entry.name)
        if name is not None:
            files[name.base_offset][name.suffix] = entry
    epochs = next((entry.path for entry in entries if entry.name == EPOCH_CHECKPOINT), None)

    def offset(file: str) -> int | None:
        return checkpoints.get(file, {}).get(partition)

    return ReplicaFiles(
        topic=partition.topic,
        partition=partition.partition,
        replica=root,
        directory=directory,
        segments=tuple(
            _segment(base, kinds) for base, kinds in sorted(files.items()) if "log" in kinds
        ),
        epoch_checkpoint=epochs,
        snapshots=tuple(
            (base, kinds["snapshot"].path)
            for base, kinds in sorted(files.items())
            if "snapshot" in kinds
        ),
        log_start=offset(LOG_START),
        recovery_point=offset(RECOVERY_POINT),
        high_watermark=offset(HIGH_WATERMARK),
        cleaner_point=offset(CLEANER_POINT),
        has_checkpoints=bool(checkpoints),
        foreign=tuple(
            entry.name for entry in entries if entry.is_directory or is_foreign(entry.name)
        ),
    )


def _segment(base_offset: int, kinds: dict[str, Entry]) -> SegmentFiles:
    def path(suffix: str) -> str | None:
        return kinds[suffix].path if suffix in kinds else None

    return SegmentFiles(
        base_offset=base_offset,
        log=kinds["log"].path,
        size_bytes=kinds["log"].size_bytes,
        index=path("index"),
        timeindex=path("timeindex"),
        txnindex=path("txnindex"),
    )


def _read_checkpoints(entries: Sequence[Entry], report: Report) -> Checkpoints:
    checkpoints: Checkpoints = {}
    for entry in entries:
        if entry.name not in OFFSET_CHECKPOINTS:
            continue
        try:
            text = read_bytes(entry.path).decode("utf-8", errors="replace")
        except OSError as error:
            report(_unreadable(entry.path, None, "", error))
            continue
        checkpoints[entry.name] = read_offset_checkpoint(text, entry.path, report)
    return checkpoints


def _check_directories(
    replicas: Sequence[ReplicaFiles], checkpoints: Checkpoints, root: str, report: Report
) -> None:
    """Report partitions that a checkpoint names but that have no directory."""
    present = {TopicPartition(each.topic, each.partition) for each in replicas}
    for file, offsets in checkpoints.items():
        for partition in sorted(set(offsets) - present):
            report(
                Finding(
                    check=Check.CHECKPOINTS,
                    damage=Damage.PARTITION_MISSING,
                    topic=partition.topic,
                    partition=partition.partition,
                    replica=root,
                    file=child_of(root, file),
                    offset=offsets[partition],
                    expected=f"a directory {partition}",
                    found="none",
                )
            )


def _list_quietly(folder: str) -> list[Entry]:
    """Return the entries beside a partition's directory; none if they cannot be listed."""
    try:
        return list_directory(folder)
    except OSError:
        return []


def _unnamed(directory: str) -> Finding:
    return Finding(
        check=Check.CHECKPOINTS,
        damage=Damage.UNNAMED_PARTITION,
        file=directory,
        expected="segments in a directory named TOPIC-PARTITION",
        found="segments in a directory of another name",
    )


def _unreadable(
    path: str, partition: TopicPartition | None, replica: str, error: OSError
) -> Finding:
    return Finding(
        check=Check.BATCHES,
        damage=Damage.UNREADABLE_FILE,
        topic="" if partition is None else partition.topic,
        partition=-1 if partition is None else partition.partition,
        replica=replica,
        file=path,
        expected="a file that can be read",
        found=error.strerror or str(error),
    )
