"""The listing of log directories: partitions, segments, and the checkpoints beside them (edge).

A directory is either a broker's log directory, which contains partitions, or the directory of one
partition. Each partition in it is one replica; several directories are several replicas.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from analytics.file_store import OpenFile, list_directory, read_bytes
from analytics.place import child_of, name_of, parent_of, without_end
from kafkawire.ids import TopicPartition
from logcheck.file_name import parse_offset_file, parse_partition_directory
from logcheck.finding import Check, Damage, Finder, Report, unreadable
from logcheck.replica_files import (
    Entry,
    ReplicaFiles,
    missing_partitions,
    read_checkpoints,
    replica_files,
)
from logcheck.unfinished_swap import finish_swap


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
            expected = "segments in a directory named TOPIC-PARTITION"
            found = "segments in a directory of another name"
            find = Finder(Check.CHECKPOINTS, report).find
            find(Damage.UNNAMED_PARTITION, root, None, None, expected, found)
            return []
        folder = parent_of(root)
        checkpoints = read_checkpoints(_list_quietly(folder), read_bytes, report)
        files = finish_swap(entries, OpenFile)
        return [replica_files(own, folder, root, files, checkpoints)]
    checkpoints = read_checkpoints(entries, read_bytes, report)
    replicas = []
    for entry in entries:
        partition = parse_partition_directory(entry.name)
        if not entry.is_directory or partition is None:
            continue
        try:
            files = finish_swap(list_directory(entry.path), OpenFile)
        except OSError as error:
            finding, (topic, number) = unreadable(entry.path, error), partition
            report(replace(finding, topic=topic, partition=number, replica=root))
            continue
        replicas.append(replica_files(partition, root, entry.path, files, checkpoints))
    directories = {entry.name for entry in (*entries, *list_directory(root)) if entry.is_directory}
    for finding in missing_partitions(checkpoints, directories, partial(child_of, root)):
        report(replace(finding, replica=root))
    return replicas


def group_by_partition(
    replicas: Sequence[ReplicaFiles],
) -> dict[TopicPartition, list[ReplicaFiles]]:
    """Return the replicas of each partition, in the order of `replicas`."""
    groups: dict[TopicPartition, list[ReplicaFiles]] = defaultdict(list)
    for replica in replicas:
        groups[TopicPartition(replica.topic, replica.partition)].append(replica)
    return dict(sorted(groups.items()))


def _list_quietly(folder: str) -> list[Entry]:
    """Return the entries beside a partition's directory; none if they cannot be listed."""
    try:
        return list_directory(folder)
    except OSError:
        return []
