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
from logcheck.finding import Check, Damage, Finding, Severity, audit_failed
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
        entries = [*entries, *list_directory(directory)]
        names = {entry.name for entry in entries if entry.is_directory}
        place_of = directory.joinpath
        reported += missing_partitions(checkpoints, names, lambda file: str(place_of(file)))
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
    except Exception as error:
        partition = parse_partition_directory(directory.name)
        return PartitionResult(directory, partition, reported=[audit_failed(str(directory), error)])


def partition_directories(directory: Path) -> list[Path]:
    """Return the partition directories in `directory`, or `directory` itself if it is one."""
    if _is_partition(directory):
        return [directory]
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_dir() and not path.name.endswith(DELETED_SUFFIX) and _is_partition(path)
    )


def _is_partition(directory: Path) -> bool:
    """Whether the directory has a file of a log; all of its segments may be lost."""
    try:
        names = [path.name for path in directory.iterdir()]
    except OSError:
        return False
    return any(name == EPOCH_CHECKPOINT or parse_offset_file(name) for name in names)


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
    """Return the entries of a partition; none if a live broker has moved or deleted it."""
    try:
        return list_directory(directory)
    except FileNotFoundError:
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
