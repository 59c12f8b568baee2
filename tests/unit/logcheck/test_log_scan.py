"""Every kind of damage to a segment is reported with its position, and nothing else is."""

import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext

import pytest
from crc32c import crc32c

from kafkawire.columns_loops import SoundBatch
from kafkawire.compression import Codec
from kafkawire.records import BatchBuilder
from logcheck import batch_walk
from logcheck.batch_walk import MAX_RUN, Batch, Walk
from logcheck.finding import Damage, Finding, Severity
from logcheck.log_scan import MAX_OPENED_BYTES, LogScan
from logcheck.log_view import ProducerObserver, RunObserver
from logcheck.marker import MarkerReading
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from tests.unit.logcheck.partition_bytes import (
    ATTRIBUTES_POSITION,
    BASE_OFFSET,
    FILE,
    FIRST_TIMESTAMP_MS,
    LAST_OFFSET_DELTA_POSITION,
    MAX_TIMESTAMP_POSITION,
    RECORD_COUNT_POSITION,
    RECORDS_PER_BATCH,
    BytesSource,
    Reported,
    build_batch,
    build_batches,
    join,
    positions_of,
    seal,
)
from tests.unit.logcheck.producer_bytes import COORDINATOR_EPOCH, data, marker, scanned

# Header of the batch 61, then length, attributes, two deltas, key length and version: 7.
MARKER_TYPE_POSITION = 61 + 7 + 1
SECOND = BASE_OFFSET + RECORDS_PER_BATCH
LARGE_BYTES = 300_000


def scan(
    data: bytes | bytearray,
    base_offset: int = BASE_OFFSET,
    *,
    with_records: bool = True,
    appended_bytes: int = 0,
) -> tuple[LogScan, Reported]:
    """Return a scan of one segment and its findings, those about epochs included."""
    segment = SegmentFiles(base_offset=base_offset, log=FILE, size_bytes=len(data))
    files = ReplicaFiles(topic="t", partition=0, replica="", directory="", segments=(segment,))
    reported = Reported()
    source = BytesSource(data, appended_bytes)
    scan = LogScan(files, reported, lambda _: nullcontext(source), with_records=with_records)
    scan.run([])
    scan.epochs.conclude((), "", scan.log_end_offset, scan.history, begun=())
    return scan, reported


def findings_of(data: bytes | bytearray) -> list[Finding]:
    return scan(data)[1].findings


def damages_of(data: bytes | bytearray) -> list[Damage]:
    return scan(data)[1].damages


@pytest.mark.parametrize("with_records", [True, False])
@pytest.mark.parametrize("appended_bytes", [0, 5])
def test_scan_of_a_healthy_segment_is_complete_and_has_no_findings(
    with_records: bool, appended_bytes: int
) -> None:
    data = join(build_batches(5))
    healthy, reported = scan(data, with_records=with_records, appended_bytes=appended_bytes)
    assert reported.findings == []
    assert (healthy.batch_count, healthy.record_count) == (5, 5 * RECORDS_PER_BATCH)
    assert (healthy.first_offset, healthy.log_end_offset) == (BASE_OFFSET, BASE_OFFSET + 15)


def test_gaps_and_empty_batches_of_compaction_are_no_damage() -> None:
    first, second, _ = build_batches(3)
    empty = bytearray(second[:61])
    struct.pack_into(">i", empty, 8, 61 - 12)
    struct.pack_into(">i", empty, RECORD_COUNT_POSITION, 0)
    far = build_batch(BASE_OFFSET + 1_000)
    found = findings_of(join([first, seal(empty), far]))
    assert {each.severity for each in found} == {Severity.NOTE}


Damager = Callable[[list[bytearray]], bytearray]


def with_second(change: Callable[[bytearray], object], *, sealed: bool = True) -> Damager:
    """Return a damager that changes the second batch, by default with an updated checksum."""

    def damage(batches: list[bytearray]) -> bytearray:
        change(batches[1])
        if sealed:
            seal(batches[1])
        return join(batches)

    return damage


def put(layout: str, position: int, value: int) -> Callable[[bytearray], object]:
    return lambda batch: struct.pack_into(layout, batch, position, value)


def flip_last_bit(batch: bytearray) -> None:
    batch[-1] ^= 1


def replace_records_with_noise(batch: bytearray) -> None:
    batch[61:] = bytes(255 for _ in batch[61:])


def swap_first_two(batches: list[bytearray]) -> bytearray:
    return join([batches[1], batches[0], batches[2]])


def repeat_second(batches: list[bytearray]) -> bytearray:
    return join([batches[0], batches[1], batches[1], batches[2]])


SECOND_BATCH_DAMAGE = [
    pytest.param(with_second(flip_last_bit, sealed=False), Damage.BAD_CRC, id="a flipped bit"),
    pytest.param(with_second(put(">b", 16, 1), sealed=False), Damage.OLD_FORMAT, id="old format"),
    pytest.param(with_second(put(">i", 8, 5), sealed=False), Damage.BAD_LENGTH, id="tiny length"),
    pytest.param(with_second(put(">i", 8, -7), sealed=False), Damage.BAD_LENGTH, id="negative"),
    pytest.param(
        with_second(put(">i", 8, 2**30), sealed=False), Damage.BAD_LENGTH, id="huge length"
    ),
    pytest.param(
        with_second(put(">i", RECORD_COUNT_POSITION, 4)),
        Damage.BAD_RECORDS,
        id="count too large",
    ),
    pytest.param(
        with_second(put(">i", RECORD_COUNT_POSITION, 2)), Damage.BAD_RECORDS, id="count too small"
    ),
    pytest.param(
        with_second(put(">i", LAST_OFFSET_DELTA_POSITION, -2)), Damage.BAD_HEADER, id="impossible"
    ),
    pytest.param(
        with_second(put(">h", ATTRIBUTES_POSITION, 7)), Damage.UNKNOWN_CODEC, id="unknown codec"
    ),
    pytest.param(
        with_second(put(">q", MAX_TIMESTAMP_POSITION, 5)),
        Damage.RECORD_TIMESTAMP,
        id="maximum below the first",
    ),
    pytest.param(
        with_second(replace_records_with_noise), Damage.BAD_RECORDS, id="noise for records"
    ),
    pytest.param(with_second(put(">q", 0, BASE_OFFSET + 1)), Damage.OFFSET_OVERLAP, id="overlap"),
    pytest.param(
        with_second(put(">q", 0, BASE_OFFSET - 9)), Damage.OFFSET_BELOW_SEGMENT, id="below the name"
    ),
    pytest.param(
        with_second(put(">q", 0, BASE_OFFSET + 2**31)), Damage.OFFSET_TOO_FAR, id="too far"
    ),
]


@pytest.mark.parametrize(("damage", "expected"), SECOND_BATCH_DAMAGE)
def test_damage_to_the_second_batch_is_reported_at_its_position(
    damage: Damager, expected: Damage
) -> None:
    batches = build_batches(3)
    findings = findings_of(damage(batches))
    assert findings[0].damage is expected
    assert findings[0].position == positions_of(batches)[1]
    assert findings[0].file == FILE
    assert str(findings[0].position) in str(findings[0])


@pytest.mark.parametrize("damage", [swap_first_two, repeat_second])
def test_batches_out_of_order_are_reported(damage: Damager) -> None:
    assert damages_of(damage(build_batches(3))) == [Damage.OFFSET_OVERLAP]


def test_decreasing_leader_epoch_is_reported() -> None:
    data = join([build_batch(BASE_OFFSET, leader_epoch=5), build_batch(SECOND, leader_epoch=4)])
    assert damages_of(data) == [Damage.EPOCH_BACK]


def every_cut() -> Iterator[int]:
    """Yield the positions inside the last of three batches, where a write may have ended."""
    batches = build_batches(3)
    yield from range(positions_of(batches)[2] + 1, len(join(batches)))


def test_torn_tail_is_reported_for_every_cut() -> None:
    batches = build_batches(3)
    last_position = positions_of(batches)[2]
    for end in every_cut():
        findings = findings_of(join(batches)[:end])
        assert [finding.damage for finding in findings] in (
            [Damage.TORN_TAIL],
            # The first bytes of an offset are zero, and an early cut leaves only these.
            [Damage.ZERO_TAIL],
        ), f"cut at {end}"
        assert findings[0].position == last_position
        assert findings[0].damage is Damage.TORN_TAIL or end < last_position + 8


@pytest.mark.parametrize("zero_count", [1, 12, 17, 61, 4096, 200_000])
def test_zero_tail_is_reported(zero_count: int) -> None:
    data = join(build_batches(3))
    findings = findings_of(data + bytes(zero_count))
    assert [finding.damage for finding in findings] == [Damage.ZERO_TAIL]
    assert findings[0].position == len(data)


class WrittenSource(BytesSource):
    """A source that a broker fills after it has been read once."""

    def __init__(self, before: bytes, after: bytes) -> None:
        super().__init__(before)
        self._after = memoryview(after)

    def read_at(self, position: int, size: int) -> memoryview:
        found = super().read_at(position, size)
        self._data = self._after
        return found


@pytest.mark.parametrize("is_active", [False, True])
def test_end_to_which_a_broker_writes_meanwhile_is_no_damage(is_active: bool) -> None:
    after = join(build_batches(3)) + bytes(300)
    count = positions_of(build_batches(3))[2]
    reported = Reported()
    source = WrittenSource(bytes(after[:count] + bytes(len(after) - count)), bytes(after))
    walk = Walk(source, FILE, reported, is_tail_allowed=is_active)
    assert len([each for each in walk.items() if isinstance(each, Batch)]) == 2
    (finding,) = reported.findings
    expected = (Damage.TORN_TAIL, Severity.NOTE), (Damage.OLD_FORMAT, Severity.ERROR)
    assert (finding.damage, finding.severity) == expected[not is_active]


def test_zeros_followed_by_data_are_not_a_zero_tail() -> None:
    assert damages_of(join(build_batches(1)) + bytes(200) + b"x") == [Damage.OLD_FORMAT]


def test_bad_checksum_does_not_hide_later_damage() -> None:
    batches = build_batches(3)
    flip_last_bit(batches[0])
    struct.pack_into(">i", batches[0], LAST_OFFSET_DELTA_POSITION, 2**30)
    flip_last_bit(batches[2])
    findings = findings_of(join(batches))
    assert [(finding.damage, finding.offset) for finding in findings] == [
        (Damage.BAD_CRC, BASE_OFFSET),
        (Damage.BAD_CRC, SECOND + RECORDS_PER_BATCH),
    ]


def test_a_value_that_looks_like_many_large_batches_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget_bytes, large_bytes, checked_bytes = 200_000, 30_000, 0

    def crc(data: memoryview) -> int:
        nonlocal checked_bytes
        checked_bytes += len(data)
        return crc32c(data)

    monkeypatch.setattr(batch_walk, "RESYNC_CHECKED_BYTES", budget_bytes)
    monkeypatch.setattr(batch_walk, "crc32c", crc)
    header = struct.pack(">qiibIhiqqqhii", 0, large_bytes, 0, 2, *[0] * 9)
    damaged = bytearray(header * 1_000)
    damaged[16] = 9
    last = build_batch(BASE_OFFSET + 1_000)
    assert damages_of(damaged + last)[0] is Damage.BAD_MAGIC
    assert checked_bytes <= budget_bytes + large_bytes
    # A batch behind a few of them is found.
    few = bytearray(header * 4) + bytes(large_bytes)
    few[16] = 9
    assert scan(few + last)[0].batch_count == 1


def test_segment_named_after_a_later_offset_is_reported() -> None:
    finding = scan(build_batch(BASE_OFFSET), BASE_OFFSET + 1)[1].findings[0]
    assert finding.damage is Damage.OFFSET_BELOW_SEGMENT
    assert finding.text == "expected 1001 or more, by the file's name, found 1000"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # After the header: length, attributes, timestamp delta, offset delta (zigzag), a byte each.
        pytest.param(put(">b", 61 + 3, 2), Damage.RECORD_OFFSET, id="an offset twice"),
        pytest.param(
            put(">q", MAX_TIMESTAMP_POSITION, FIRST_TIMESTAMP_MS),
            Damage.RECORD_TIMESTAMP,
            id="newer than the batch's maximum",
        ),
    ],
)
def test_record_that_contradicts_its_header_is_reported(
    change: Callable[[bytearray], object], expected: Damage
) -> None:
    batch = build_batch(BASE_OFFSET)
    change(batch)
    (finding,) = findings_of(seal(batch))
    assert (finding.damage, finding.offset) == (expected, BASE_OFFSET)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(put(">i", RECORD_COUNT_POSITION, 4), Damage.RECORD_COUNT, id="count"),
        pytest.param(put(">q", MAX_TIMESTAMP_POSITION, 5), Damage.RECORD_TIMESTAMP, id="maximum"),
    ],
)
def test_damage_in_a_header_is_reported_without_reading_records(
    change: Callable[[bytearray], object], expected: Damage
) -> None:
    data = with_second(change)(build_batches(3))
    assert scan(data, with_records=False)[1].damages == [expected]


class RunReader(RunObserver):
    """An observer that keeps the runs."""

    def __init__(self) -> None:
        self.runs: list[Sequence[SoundBatch]] = []

    def on_run(self, batches: Sequence[SoundBatch]) -> None:
        self.runs.append(batches)


def large_batch(offset: int) -> bytearray:
    """Return a batch that is much larger when decompressed."""
    builder = BatchBuilder(Codec.GZIP)
    builder.append(FIRST_TIMESTAMP_MS, b"key", b"x" * LARGE_BYTES)
    return builder.build(offset, 0)


def test_few_decompressed_batches_are_in_memory_at_once_and_in_order() -> None:
    batches = [large_batch(offset) for offset in range(12)]
    # An unreadable batch ends a run, so that its place is known.
    unreadable = batches[7]
    replace_records_with_noise(unreadable)
    seal(unreadable)
    reader = RunReader()
    log = scanned(batches, reader)
    assert 3 * LARGE_BYTES < MAX_OPENED_BYTES < 4 * LARGE_BYTES
    offsets = [[batch.header.base_offset for batch in run] for run in reader.runs]
    assert offsets == [[0, 1, 2, 3], [4, 5, 6], [8, 9, 10, 11]]
    assert log.segments[0].damaged_positions == {sum(map(len, batches[:7]))}


def test_many_small_compressed_batches_come_in_runs() -> None:
    batches = [
        build_batch(RECORDS_PER_BATCH * number, codec=Codec.LZ4) for number in range(2 * MAX_RUN)
    ]
    reader = RunReader()
    scanned(batches, reader)
    assert [len(run) for run in reader.runs] == [MAX_RUN, MAX_RUN]


class MarkerReader(ProducerObserver):
    """An observer that keeps the readings of the markers."""

    def __init__(self) -> None:
        self.readings: list[MarkerReading] = []

    def on_producer_batch(self, _batch: SoundBatch, reading: MarkerReading) -> None:
        self.readings.append(reading)


def test_a_marker_is_read_once_for_all_observers() -> None:
    # Its faulty type makes each reading another object.
    faulty = marker(2)
    faulty[MARKER_TYPE_POSITION] = 9
    first, second = MarkerReader(), MarkerReader()

    scanned([data(0), marker(1), seal(faulty)], first, second)

    assert [each.marker for each in first.readings] == [None, (0, COORDINATOR_EPOCH), None]
    assert first.readings[2].fault is not None
    assert all(map(operator.is_, first.readings, second.readings))


def test_segment_that_a_live_cleaner_has_merged_into_the_one_before_is_only_gone() -> None:
    """Both were listed; then the cleaner renamed the second, and replaced the first."""
    merged = join(build_batches(2))
    segments = tuple(
        SegmentFiles(base_offset=base, log=f"{base:020}.log", size_bytes=len(merged))
        for base in (BASE_OFFSET, SECOND)
    )
    files = ReplicaFiles(topic="t", partition=0, replica="", directory="", segments=segments)

    def open_source(file: str) -> nullcontext[BytesSource]:
        if file == segments[1].log:
            raise FileNotFoundError(file)
        return nullcontext(BytesSource(merged, 0))

    reported = Reported()
    scan = LogScan(files, reported, open_source)
    scan.run([])
    assert reported.damages == [Damage.FILE_VANISHED]
    assert len(scan.segments) == len(segments)
