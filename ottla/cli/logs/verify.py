"""Checks whole log directories, partition by partition (edge).

It reads the checkpoints first, then the partitions. Appends of a running broker in between make the
later files longer, never shorter.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from kafkawire.key_table_loops import KeyLimitError
from kafkawire.native import KeyTable
from logcheck.file_name import EPOCH_CHECKPOINT, parse_offset_file, parse_partition_directory
from logcheck.finding import Check, Damage, Finding, Severity, audit_failed, unreadable
from logcheck.local_file import FileSource, list_directory, read_bytes
from logcheck.replica import KeyComparison
from logcheck.replica_comparison import common_end, compare_pair, most_complete
from logcheck.replica_files import Checkpoints, Entry, missing_partitions, read_checkpoints
from ottla.cli.logs.partition_result import PartitionResult
from ottla.cli.logs.partition_verification import VerifyOptions, verify_partition

DELETED_SUFFIX: Final = "-delete"
DEFAULT_OPTIONS: Final = VerifyOptions()


def verify_directories(
    directories: Iterable[Path], options: VerifyOptions = DEFAULT_OPTIONS
) -> list[PartitionResult]:
    """Return a result per partition of all directories; compare replicas of one partition.

    Damage to the checkpoints of a directory is in a result of its own.
    """
    directories = list(directories)
    names = [path.name for each in directories for path in partition_directories(each)]
    shared = {name for name in names if names.count(name) > 1}
    results = [
        result for each in directories for result in _verify_directory(each, options, shared)
    ]
    for name in sorted(shared):
        compare_replicas([result for result in results if result.name == name], options)
    return [result.without_batches() for result in results]


def _verify_directory(
    directory: Path, options: VerifyOptions, shared: set[str]
) -> list[PartitionResult]:
    partitions = partition_directories(directory)
    is_single = partitions == [directory]
    log_directory = directory.parent if is_single else directory
    entries, reported = list_directory(log_directory), list[Finding]()
    checkpoints = read_checkpoints(entries, read_bytes, reported.append)
    if not is_single:
        before, after = _directory_names(entries), _directory_names(list_directory(directory))
        place_of = directory.joinpath
        reported += missing_partitions(
            checkpoints, before | after, lambda file: str(place_of(file))
        )
        # A broker may have moved a partition here, or away, after the checkpoints were read.
        held = _with_records(before & after, checkpoints)
        partitions = sorted({*partitions, *map(directory.joinpath, held)})
    results = [
        _verify_partition(path, checkpoints, options, is_compared=path.name in shared)
        for path in partitions
    ]
    if reported:
        results.append(PartitionResult(log_directory, reported=reported))
    return results


def _verify_partition(
    directory: Path, checkpoints: Checkpoints, options: VerifyOptions, *, is_compared: bool
) -> PartitionResult:
    """Verify a partition; an exception is a finding and does not end the verification of others."""
    try:
        return verify_partition(directory, checkpoints, options, is_compared=is_compared)
    except OSError as error:
        finding = unreadable(str(error.filename or directory), error)
    except Exception as error:
        finding = audit_failed(str(directory), error)
    partition = parse_partition_directory(directory.name)
    return PartitionResult(directory, partition, reported=[finding])


def _directory_names(entries: Iterable[Entry]) -> set[str]:
    """Return the names of the directories among `entries`."""
    return {entry.name for entry in entries if entry.is_directory}


def _with_records(names: Iterable[str], checkpoints: Checkpoints) -> list[str]:
    """Return the names of partitions that had records according to a checkpoint."""
    held = {
        partition
        for offsets in checkpoints.values()
        for partition, offset in offsets.items()
        if offset > 0
    }
    return [name for name in names if parse_partition_directory(name) in held]


def partition_directories(directory: Path) -> list[Path]:
    """Return the partition directories in `directory`, or `directory` itself if it is one.

    Raises:
        OSError: `directory` cannot be listed.
    """
    paths = sorted(directory.iterdir())
    if _has_log(paths):
        return [directory]
    return [
        path
        for path in paths
        if path.is_dir() and not path.name.endswith(DELETED_SUFFIX) and _is_partition(path)
    ]


def _is_partition(directory: Path) -> bool:
    """Whether the directory has a file of a log, or has the name of a partition but no listing."""
    try:
        return _has_log(directory.iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return parse_partition_directory(directory.name) is not None


def _has_log(paths: Iterable[Path]) -> bool:
    """Whether one is a file of a log; all of its segments may be lost."""
    return any(path.name == EPOCH_CHECKPOINT or parse_offset_file(path.name) for path in paths)


def segment_bytes(directories: Iterable[Path]) -> int:
    """Return the total size of the segments to check."""
    return sum(
        entry.size_bytes
        for directory in directories
        for path in partition_directories(directory)
        for entry in _entries_in(path)
        if entry.name.endswith(".log")
    )


def _entries_in(directory: Path) -> list[Entry]:
    """Return the entries of a partition; none if it cannot be listed, or a broker has moved it."""
    try:
        return list_directory(directory)
    except OSError:
        return []


def compare_replicas(results: Sequence[PartitionResult], options: VerifyOptions) -> None:
    """Report the differences of each replica from the most complete one in its result."""
    compared = [(each, each.replica) for each in results if each.replica is not None]
    if not compared:
        return
    end = common_end([replica for _, replica in compared])
    rules = options.rules
    keys = KeyComparison(
        FileSource, read_bytes, partial(KeyTable, rules.key_limit), rules.finding_limit
    )
    first = most_complete([replica for _, replica in compared])
    for result, other in compared:
        if other is first:
            continue
        try:
            compare_pair(first, other, end, keys)
        except KeyLimitError as error:
            result.reported.append(_keys_not_compared(result.directory, error))


def _keys_not_compared(directory: Path, error: KeyLimitError) -> Finding:
    return Finding(
        check=Check.REPLICAS,
        damage=Damage.NOTHING_COMPARED,
        file=str(directory),
        expected="keys that fit into the memory of this process",
        found=f"{error}: raise key.limit, or use `ottla audit replicas`",
        severity=Severity.WARNING,
    )
