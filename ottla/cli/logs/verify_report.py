"""Prints the results of a verification (edge)."""

from collections.abc import Sequence

from ottla.cli.logs.item import FindingItem
from ottla.cli.logs.partition_result import PartitionResult
from ottla.cli.terminal import print_json, print_line, print_table
from ottla.cli.text import JsonValue

COLUMNS = ("partition", "segments", "batches", "records", "offsets", "inconsistencies")


def print_results(results: Sequence[PartitionResult], *, as_json: bool) -> int:
    """Print every finding and a row per partition; return the number of findings."""
    count = sum(len(result.findings) for result in results)
    if as_json:
        print_json([_to_json(result) for result in results])
        return count
    for result in results:
        for finding in result.findings:
            print_line(f"! {finding}")
        for finding in result.notes:
            print_line(f"  {finding}")
        for severity, more in result.unlisted.items():
            print_line(f"  {result.name}: {more:,} {severity}s more are not listed")
    # With several log directories, results for replicas of a partition have the same name.
    is_ambiguous = len({result.name for result in results}) < len(results)
    print_table(COLUMNS, [_row(result, with_path=is_ambiguous) for result in results])
    return count


def _row(result: PartitionResult, *, with_path: bool) -> tuple[str | int, ...]:
    offsets = f"{_first(result)}..{result.log_end_offset - 1}" if result.batch_count else "none"
    return (
        str(result.directory) if with_path else result.name,
        result.segment_count,
        result.batch_count,
        result.record_count,
        offsets,
        len(result.findings),
    )


def _first(result: PartitionResult) -> int:
    return result.first_offset or 0


def _to_json(result: PartitionResult) -> JsonValue:
    return {
        "directory": str(result.directory),
        "segments": result.segment_count,
        "batches": result.batch_count,
        "records": result.record_count,
        "first_offset": result.first_offset,
        "log_end_offset": result.log_end_offset,
        "index_shapes": dict(result.index_shapes),
        "findings": [FindingItem(finding).to_json() for finding in result.findings],
        "unlisted": {**result.unlisted},
        "notes": [FindingItem(finding).to_json() for finding in result.notes],
    }
