"""Audits agree with the naive auditor on random logs with random faults in their structure."""

import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkawire.compression import Codec
from logcheck.finding import Finding
from logcheck.rule import Rules
from tests.analytics.audited import NOW_MS, findings_of
from tests.analytics.log_model import START_MS, Bat, Log, Rec
from tests.analytics.naive_auditor import Found, NaiveAuditor, compare_replicas, is_sound_at
from tests.analytics.planter import edit, segments

numbers = st.integers(0, 1000)
sizes = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 60), st.booleans()), min_size=4)
Fault = Callable[[Path, int, int], None]


def make(shape: list[tuple[int, int, bool]], per_segment: int, epochs: set[int]) -> Log:
    """Return a log with batches of `shape` (records, age of their timestamps, compressed)."""
    batches: list[Bat] = []
    epoch, starts = 0, [(0, 0)]
    for number, (count, age_ms, is_compressed) in enumerate(shape):
        first = batches[-1].last + 1 if batches else 0
        if number in epochs and number:
            epoch += 1
            starts.append((epoch, first))
        records = tuple(
            Rec(offset, b"key-%d" % offset, b"v" * 40, START_MS + 10 * offset - age_ms)
            for offset in range(first, first + count)
        )
        codec = Codec.GZIP if is_compressed else Codec.NONE
        batches.append(Bat(first, records[-1].offset, records, epoch=epoch, codec=codec))
    parts = [batches[at : at + per_segment] for at in range(0, len(batches), per_segment)]
    return Log(segments=[(part[0].first, part) for part in parts], epochs=starts)


def patch(at: Path, which: int, position: int, layout: str, value: int, *, crc: bool) -> None:
    """Overwrite one field of a batch header, and correct the checksum if `crc`.

    With `crc`, a batch that is already damaged is left alone, so that it stays damaged.
    """
    segment = segments(at)[which % len(segments(at))]
    number = which % max(1, len(segment.batches))
    if segment.batches and (not crc or is_sound_at(segment.batches[number], 0)):
        segment.patch(number, position, struct.pack(layout, value), with_crc=crc)


def flip(at: Path, which: int, value: int) -> None:
    segment = segments(at)[which % len(segments(at))]
    if segment.batches:
        number = which % len(segment.batches)
        segment.flip(number, 21 + value % (len(segment.batches[number]) - 21))


def rebase(at: Path, which: int, value: int) -> None:
    patch(at, which, 0, ">q", value % 60, crc=False)


def other_epoch(at: Path, which: int, value: int) -> None:
    patch(at, which, 12, ">i", value % 4, crc=False)


def other_newest(at: Path, which: int, value: int) -> None:
    patch(at, which, 35, ">q", START_MS + value, crc=True)


def other_delta(at: Path, which: int, value: int) -> None:
    patch(at, which, 23, ">i", value % 6, crc=True)


def other_count(at: Path, which: int, value: int) -> None:
    patch(at, which, 57, ">i", 1 + value % 5, crc=True)


def reorder(at: Path, which: int, value: int) -> None:
    """Drop or duplicate a batch."""
    segment = segments(at)[which % len(segments(at))]
    order = list(range(len(segment.batches)))
    if len(order) > 1:
        chosen = order[which % len(order)]
        segment.reorder([*order, chosen] if value % 2 else [n for n in order if n != chosen])


def cut(at: Path, which: int, value: int) -> None:
    segment = segments(at)[which % len(segments(at))]
    data = segment.path.read_bytes()
    # The cut leaves the header of the last batch complete.
    segment.path.write_bytes(data[: len(data) - 1 - value % 20])


def drop_segment(at: Path, which: int, _: int) -> None:
    paths = sorted(at.glob("*.log"))
    if len(paths) > 1:
        for suffix in (".log", ".index", ".timeindex"):
            paths[which % len(paths)].with_suffix(suffix).unlink(missing_ok=True)


def index_field(suffix: str, layout: str) -> Fault:
    """Change one number of one entry of an index."""

    def fault(at: Path, which: int, value: int) -> None:
        size = struct.calcsize(layout)
        paths = [path for path in sorted(at.glob(f"*{suffix}")) if path.stat().st_size >= size]
        if paths:
            edit(paths[which % len(paths)], lambda data: change(data, which, value))

    def change(data: bytearray, which: int, value: int) -> None:
        size = struct.calcsize(layout)
        slot = which % (len(data) // size) * size
        entry = list(struct.unpack_from(layout, data, slot))
        entry[value % 2] = max(1, entry[value % 2] + value % 41 - 20)
        struct.pack_into(layout, data, slot, *entry)

    return fault


def index_end(suffix: str) -> Fault:
    """Cut an index, or remove it."""

    def fault(at: Path, which: int, value: int) -> None:
        paths = sorted(at.glob(f"*{suffix}"))
        if not paths:
            return
        path = paths[which % len(paths)]
        if value % 3:
            path.write_bytes(path.read_bytes()[: -1 - value % 14])
        else:
            path.unlink()

    return fault


def epoch_line(at: Path, which: int, value: int) -> None:
    edit_lines(at / "leader-epoch-checkpoint", which, f"{value % 4} {value % 70}")


def offset_line(at: Path, which: int, value: int) -> None:
    names = ("replication", "recovery-point", "log-start", "cleaner")
    name = f"{names[which % 4]}-offset-checkpoint"
    (at.parent / name).write_text(f"0\n1\norders 0 {value % 120}\n")


def edit_lines(path: Path, which: int, line: str) -> None:
    lines = path.read_text().splitlines()[2:]
    lines[which % len(lines)] = line
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


FAULTS: list[Fault] = [
    *(flip, rebase, other_epoch, other_newest, other_delta, other_count, reorder, cut),
    *(drop_segment, epoch_line, offset_line),
    index_field(".index", ">ii"),
    index_field(".timeindex", ">qi"),
    index_end(".index"),
    index_end(".timeindex"),
]
Planted = tuple[Fault, int, int]
"""A fault with the numbers that choose its place and its value."""
faults = st.lists(st.tuples(st.sampled_from(FAULTS), numbers, numbers), max_size=4)


def plant(at: Path, chosen: list[Planted]) -> None:
    """Make the `chosen` faults in a log; a cut comes last.

    A cut batch before others is no torn end: both auditors would resume at another byte, and a
    later fault would not find the batches.
    """
    for fault, which, value in sorted(chosen, key=lambda each: each[0] is cut):
        fault(at, which, value)


@settings(max_examples=120, deadline=None)
@given(sizes, st.integers(2, 9), st.sets(st.integers(0, 20), max_size=3), faults)
@example([(1, 0, False)] * 8, 7, set(), [(reorder, 0, 1), (cut, 1, 0)])
@example([(1, 0, False)] * 8, 7, set(), [(flip, 6, 20), (cut, 1, 0)])
@example([(1, 0, False)] * 4, 2, set(), [(epoch_line, 0, 3), (offset_line, 1, 1)])
def test_integrity_audit_agrees_with_the_naive_auditor(
    shape: list[tuple[int, int, bool]],
    per_segment: int,
    epochs: set[int],
    chosen: list[Planted],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        at = make(shape, per_segment, epochs).write(Path(folder))
        plant(at, chosen)
        found = findings_of("integrity", Path(folder))
        expected = NaiveAuditor(at).integrity()
    assert names(found) == expected
    if not chosen:
        assert expected == set()


@example([(1, 0, False)] * 4, 2, [(other_epoch, 0, 1)], [(other_epoch, 1, 1)])
@example(
    [(4, 0, False), *[(1, 0, False)] * 3], 2, [], [(cut, 0, 114), (reorder, 0, 1), (flip, 0, 0)]
)
@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(2, 9), faults, faults)
def test_replica_audit_agrees_with_the_naive_comparison(
    shape: list[tuple[int, int, bool]],
    per_segment: int,
    here: list[Planted],
    there: list[Planted],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = make(shape, per_segment, set())
        places = [log.write(Path(folder) / name) for name in "ab"]
        for at, chosen in zip(places, (here, there), strict=True):
            plant(at, [each for each in chosen if each[0] is not offset_line or each[1] % 4 != 3])
        rules = Rules(now_ms=NOW_MS, cleanup_policy="delete")
        found = findings_of("replicas", *(at.parent for at in places), rules=rules)
        first, other = (NaiveAuditor(at) for at in places)
        expected = {each[2] for each in compare_replicas(first, other)}
    differing = [each for each in found if each.damage == "replica_differs"]
    # Faults in both logs may look like epochs that a leader forgot; nothing below is compared then.
    forgotten = [
        each for each in differing if each.expected.endswith("a log start in a checkpoint")
    ]
    start = max((each.offset or 0 for each in forgotten), default=0)
    reported = {each.offset for each in differing if each not in forgotten}
    assert reported == {offset for offset in expected if (offset or 0) >= start}


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 5), st.integers(0, 3_600_000), st.integers(0, 6000))
def test_retention_audit_agrees_with_the_naive_rule(
    shape: list[tuple[int, int, bool]], per_segment: int, age_ms: int, size_bytes: int
) -> None:
    log = make(shape, per_segment, set())
    rules = Rules(
        now_ms=NOW_MS, retention_ms=age_ms, retention_bytes=size_bytes, retention_slack_ms=1000
    )
    with tempfile.TemporaryDirectory() as folder:
        at = log.write(Path(folder))
        found = findings_of("retention", Path(folder), rules=rules)
        sizes_of = [path.stat().st_size for path in sorted(at.glob("*.log"))]
    expected: set[tuple[str, int | None]] = set()
    newest = [
        max(rec.timestamp_ms for bat in part for rec in bat.records) for _, part in log.segments
    ]
    for number, (base, _) in enumerate(log.segments[:-1]):
        is_due = all(NOW_MS - each > age_ms for each in newest[: number + 1])
        if is_due and NOW_MS - newest[number] > age_ms + 1000:
            expected.add(("kept_too_long", base))
        if sum(sizes_of[number + 1 :]) >= size_bytes:
            expected.add(("kept_too_much", base))
    assert {(each.damage, each.offset) for each in found} == expected


def names(found: list[Finding]) -> set[Found]:
    return {(each.damage, Path(each.file).name, each.offset) for each in found}
