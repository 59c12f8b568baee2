"""The cost of the checks grows linearly with the log, counted in calls and not in time."""

import gc
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import FrameType

from logcheck.batch_digest import BatchDigest
from logcheck.kept_producers import check_markers
from logcheck.log_scan import LogScan
from logcheck.log_view import LogCheck
from logcheck.offset_check import OffsetCheck
from logcheck.producer_files import producer_check, transaction_check
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from logcheck.rule import Rules
from logcheck.transaction_check import TransactionCheck
from logcheck.transaction_index import ENTRY, IndexFile, TransactionIndex
from logcheck.transaction_ranges import TransactionRanges
from logcheck.transaction_replay import TransactionColumns
from tests.unit.logcheck.partition_bytes import (
    FILE,
    BytesSource,
    Reported,
    build_batch,
)
from tests.unit.logcheck.producer_bytes import PRODUCER_ID, data, marker

# Twice the log may cost a little more than twice the calls.
MAX_GROWTH = 2.2


# Calls of the checks themselves for each batch of a short transaction, which has two.
MAX_CALLS_PER_BATCH = 28


def calls_of(work: Callable[[], object], folder: str = "") -> int:
    """Return the number of calls, those into generators and built-in functions included.

    With a `folder`, only the calls into its files and from there count. The garbage collector is
    off meanwhile, because its callbacks would count as well.
    """
    count = 0

    def on_event(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call") and folder in frame.f_code.co_filename

    gc.disable()
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def transactions(count: int) -> tuple[bytes, bytes]:
    """Return a segment of `count` aborted transactions of one producer, and its index."""
    batches, entries = bytearray(), bytearray()
    for number in range(count):
        batches += data(2 * number, number) + marker(2 * number + 1)
        entries += ENTRY.pack(0, PRODUCER_ID, 2 * number, 2 * number + 1, 2 * number + 2)
    return bytes(batches), bytes(entries)


def files_of(data: bytes, cleaner_point: int | None) -> ReplicaFiles:
    return ReplicaFiles(
        topic="t",
        partition=0,
        replica="",
        directory="",
        segments=(SegmentFiles(base_offset=0, log=FILE, size_bytes=len(data)),),
        cleaner_point=cleaner_point,
    )


def read_nothing(file: str) -> bytes:
    raise FileNotFoundError(file)


def check_transactions(count: int, cleaner_point: int | None) -> int:
    """Check a log against itself; return the number of calls."""
    data, entries = transactions(count)
    files, reported, reference = files_of(data, cleaner_point), Reported(), TransactionColumns()
    LogScan(files, lambda _: None, lambda _: nullcontext(BytesSource(data))).run([reference])
    # Equal markers need no look at each of them.
    for column in (*reference.markers, reference.marker_times_ms):
        column.pop()
    scan = LogScan(files, lambda _: None, lambda _: nullcontext(BytesSource(data)))
    index = IndexFile(FILE, 0, None, entries)
    active = SegmentFiles(base_offset=1 << 40, log="active", size_bytes=0)
    files = replace(files, segments=(*files.segments, active))

    def work() -> None:
        check = TransactionCheck(
            TransactionIndex([index], reported),
            lambda _: index,
            files,
            scan.history,
            scan.offsets,
            0,
            reported,
        )
        scan.run([check])
        check.conclude(scan)
        check_markers(reference, check.replay, scan, scan.log_end_offset, 2**63 - 1, reported)

    calls = calls_of(work)
    assert len(reported.findings) == (0 if cleaner_point is None else count)
    return calls


def test_transactions_cost_linearly_many_calls() -> None:
    for cleaner_point in (None, 1 << 40):
        once, twice = (check_transactions(count, cleaner_point) for count in (200, 400))
        assert twice < MAX_GROWTH * once


def test_short_transactions_cost_few_calls() -> None:
    def calls(count: int) -> int:
        data, _ = transactions(count)
        scan = LogScan(files_of(data, None), Reported(), lambda _: nullcontext(BytesSource(data)))
        place = scan, read_nothing, Rules(), Reported()
        checks: list[LogCheck] = [producer_check(*place), transaction_check(*place)]
        return calls_of(lambda: scan.run(checks), "/logcheck/")

    batches = 2 * (400 - 200)
    assert (calls(400) - calls(200)) / batches < MAX_CALLS_PER_BATCH


def test_lookups_of_transactions_cost_the_same_in_every_log() -> None:
    def lookups(count: int) -> int:
        ranges = TransactionRanges((PRODUCER_ID, 2 * n, 2 * n + 1) for n in range(count))
        return calls_of(lambda: [ranges.covers(PRODUCER_ID, n) for n in range(100)])

    assert lookups(4_000) == lookups(1_000)


def test_lookups_of_damage_cost_the_same_in_every_log() -> None:
    def lookups(count: int) -> int:
        check = OffsetCheck(lambda _: None, None)
        check.damaged = [(10 * n, 10 * n + 5) for n in range(count)]
        assert [check.is_damaged(offset) for offset in (13, 16, 20, 10 * count)] == [
            True,
            False,
            True,
            False,
        ]
        return calls_of(lambda: [check.is_damaged(n) for n in range(100)])

    assert lookups(4_096) <= lookups(1_024) + 2 * 100


def test_places_of_batches_cost_the_same_in_every_log() -> None:
    def lookups(segment_count: int) -> int:
        digest = BatchDigest(0)
        sources = {f"{n}.log": bytes(build_batch(3 * n)) for n in range(segment_count)}
        scan = LogScan(
            ReplicaFiles(
                topic="t",
                partition=0,
                replica="",
                directory="",
                segments=tuple(
                    SegmentFiles(base_offset=3 * n, log=f"{n}.log", size_bytes=1)
                    for n in range(segment_count)
                ),
            ),
            Reported(),
            lambda file: nullcontext(BytesSource(sources[file])),
        )
        scan.run([digest])
        assert digest.place(segment_count - 1) == scan.place_of(3 * segment_count - 1)
        return calls_of(lambda: (digest.place(1), scan.place_of(4)))

    assert lookups(128) <= lookups(32) + 2 * 2
