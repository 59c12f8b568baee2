"""A scan gives the same results for batches that are read together and one by one."""

from contextlib import nullcontext

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import write_header
from logcheck.finding import Finding
from logcheck.history import History
from logcheck.log_scan import LogScan
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from tests.unit.logcheck.partition_bytes import FILE, BytesSource, Reported, header_of
from tests.unit.logcheck.producer_bytes import corrupt, data, emptied, marker, plain

LAST_OFFSET = 2**31 - 1
CHANGES: tuple[dict[str, int], ...] = (
    {"leader_epoch": 1},
    {"attributes": 0x90},
    {"attributes": 0x50},
    {"attributes": 0x20},
    {"attributes": 0x10, "producer_id": -1},
    {"producer_epoch": -1},
    {"last_offset_delta": 3},
)
KINDS = ("data", "marker", "old", "plain", "keyless", "surplus", "emptied", "corrupt")
# Most batches are usual, so that some follow each other.
BATCHES = st.lists(
    st.tuples(
        st.sampled_from(("data",) * len(KINDS) + KINDS),
        st.sampled_from(({},) * 2 * len(CHANGES) + CHANGES),
        st.sampled_from((0,) * 10 + (1, -1, LAST_OFFSET)),
    ),
    min_size=2,
)
HISTORIES = st.sampled_from((History(), History(cleanup_policy="delete"), History(log_start=3)))


class Recorder:
    """An observer that keeps the batches, each with the gaps before it."""

    def __init__(self, scan: LogScan) -> None:
        self._scan = scan
        self.seen: list[tuple[SoundBatch, int, bool]] = []

    def on_batch(self, batch: SoundBatch) -> None:
        offsets = self._scan.offsets
        self.seen.append((batch, offsets.missing_count, offsets.has_damage))


class OneByOne(BytesSource):
    """A source whose chunks are too small for more than one batch."""

    chunk_bytes = 1


def build(kind: str, offset: int) -> bytearray:
    if kind in ("marker", "old"):
        return marker(offset, timestamp_ms=1 if kind == "old" else None)
    if kind in ("plain", "keyless"):
        return plain(offset, key=None if kind == "keyless" else b"key")
    return data(offset, count=2 if kind == "surplus" else 1)


def segment_of(batches: list[tuple[str, dict[str, int], int]]) -> bytes:
    segment, offset = bytearray(), 0
    for kind, change, gap in batches:
        offset = max(offset + gap, 0)
        batch = build(kind, offset)
        if kind == "surplus":
            change = {"last_offset_delta": 0}
        write_header(batch, header_of(batch)._replace(**change))
        offset = header_of(batch).next_offset
        segment += (
            corrupt(batch) if kind == "corrupt" else emptied(batch) if kind == "emptied" else batch
        )
    return bytes(segment)


def results_of(source: BytesSource, history: History) -> tuple[object, ...]:
    """Return the findings, the figures, the columns, and the batches that an observer got."""
    reported = Reported()
    segments = (SegmentFiles(base_offset=0, log=FILE, size_bytes=source.size_bytes),)
    files = ReplicaFiles(topic="t", partition=0, replica="", directory="", segments=segments)
    scan = LogScan(files, reported, lambda _: nullcontext(source), history=history)
    recorder = Recorder(scan)
    scan.run([recorder])
    columns = scan.segments[0]
    arrays = columns.positions, columns.base_offsets, columns.last_offsets, columns.newest_so_far
    figures = scan.batch_count, scan.record_count, scan.log_end_offset, scan.offsets.needs_keys
    damaged = scan.offsets.damaged, columns.damaged_positions
    findings: list[Finding] = sorted(reported.findings, key=lambda each: each.position or 0)
    return findings, figures, damaged, arrays, scan.epochs.runs, recorder.seen


@given(BATCHES, HISTORIES)
def test_batches_read_together_count_like_batches_read_one_by_one(
    batches: list[tuple[str, dict[str, int], int]], history: History
) -> None:
    segment = segment_of(batches)

    together, one_by_one = (
        results_of(source(segment), history) for source in (BytesSource, OneByOne)
    )

    assert together == one_by_one
