"""Violations of a log's structure to plant, and the findings expected for them.

Each function changes the files of the partition in `at` (a log of four segments of twenty
batches of five records, epochs 0 and 1). It returns the expected findings: (kind, file, offset).
"""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.analytics.planter import Segment, edit, segments

Expected = set[tuple[str, str, int | None]]
Plant = Callable[[Path], Expected]

INDEX: Final = "00000000000000000100.index"
TIMES: Final = "00000000000000000100.timeindex"
EPOCHS: Final = "leader-epoch-checkpoint"
_HEADER_FIELDS: Final = {
    "crc": 18,
    "attributes": 22,
    "last_offset_delta": 26,
    "base_timestamp": 34,
    "max_timestamp": 42,
    "producer_id": 50,
    "producer_epoch": 52,
    "base_sequence": 56,
    "record_count": 60,
    "key": 69,
    "value": 82,
}


def flip_bit(field: str) -> Plant:
    def plant(at: Path) -> Expected:
        segment = segments(at)[1]
        segment.flip(7, _HEADER_FIELDS[field])
        return {("bad_crc", segment.path.name, segment.header(7).base_offset)}

    return plant


def patched(
    kind: str, position: int, data: bytes, offset: int = 135, *, at_batch: tuple[int, int] = (1, 7)
) -> Plant:
    """Patch a batch, given by its segment and its number there, and correct the checksum."""

    def plant(at: Path) -> Expected:
        number, batch = at_batch
        segment = segments(at)[number]
        segment.patch(batch, position, data, with_crc=position > 20)
        return {(kind, segment.path.name, offset)}

    return plant


def length_too_large(at: Path) -> Expected:
    segment = segments(at)[1]
    length = segment.header(7).batch_length
    segment.patch(7, 8, struct.pack(">i", length + 40))
    return {("bad_crc", segment.path.name, 135)}


def torn_tail(at: Path) -> Expected:
    segment = segments(at)[1]
    segment.path.write_bytes(segment.path.read_bytes()[:-30])
    return {("torn_tail", segment.path.name, None)}


def zero_tail(at: Path) -> Expected:
    segment = segments(at)[1]
    data = segment.path.read_bytes()
    segment.path.write_bytes(data[: segment.position(19)] + bytes(len(data) - segment.position(19)))
    return {("zero_tail", segment.path.name, None)}


def reordered(kind: str, batches: Sequence[int], offset: int, number: int = 1) -> Plant:
    """Rewrite the segment `number` with these of its batches, and with matching indexes."""

    def plant(at: Path) -> Expected:
        segment = segments(at)[number]
        segment.reorder(batches)
        segment.restore_indexes()
        return {(kind, segment.path.name, offset)}

    return plant


def segment_removed(at: Path) -> Expected:
    for path in at.glob("00000000000000000100.*"):
        path.unlink()
    return {("offset_gap", "00000000000000000200.log", 200)}


def segment_without_file(at: Path) -> Expected:
    (at / "00000000000000000200.log").unlink()
    return {
        ("segment_missing", "00000000000000000200.index", 200),
        ("offset_gap", "00000000000000000300.log", 300),
    }


def segment_renamed(at: Path) -> Expected:
    for path in at.glob("00000000000000000200.*"):
        path.rename(path.with_name(path.name.replace("200", "190")))
    # Index entries are relative to the base offset in the file's name, so they are wrong too.
    for kind in ("index", "timeindex"):
        (at / f"00000000000000000190.{kind}").unlink()
    return {
        ("segment_overlap", "00000000000000000190.log", 190),
        ("index_missing", "00000000000000000190.index", None),
        ("index_missing", "00000000000000000190.timeindex", None),
    }


def records_out_of_order(at: Path) -> Expected:
    segment = segments(at)[1]
    # The offset delta of the second record becomes that of the first.
    segment.patch(7, 61 + segment.batches[7][61] // 2 + 1 + 3, b"\0", with_crc=True)
    return {("record_offset", segment.path.name, 135)}


def epochs(kind: str, lines: str, offset: int, file: str = EPOCHS) -> Plant:
    """Replace the leader epoch checkpoint."""

    def plant(at: Path) -> Expected:
        (at / EPOCHS).write_text(f"0\n{lines.count(chr(10))}\n{lines}")
        return {(kind, file, offset)}

    return plant


def index_entry(kind: str, change: Callable[[bytearray, Segment], None], slot: int = 2) -> Plant:
    def plant(at: Path) -> Expected:
        segment = segments(at)[1]
        edit(at / INDEX, lambda data: change(data, segment))
        data = (at / INDEX).read_bytes()
        offset = 100 + struct.unpack_from(">i", data, slot * 8)[0]
        return {(kind, INDEX, offset)}

    return plant


def shift_position(data: bytearray, _: Segment) -> None:
    struct.pack_into(">i", data, 20, struct.unpack_from(">i", data, 20)[0] + 1)


def next_batch(data: bytearray, segment: Segment) -> None:
    position = struct.unpack_from(">i", data, 20)[0]
    number = next(n for n in range(20) if segment.position(n) == position)
    struct.pack_into(">i", data, 20, segment.position(number + 1))


def wrong_offset(data: bytearray, _: Segment) -> None:
    struct.pack_into(">i", data, 16, struct.unpack_from(">i", data, 16)[0] + 1)


def swap_entries(data: bytearray, _: Segment) -> None:
    data[8:16], data[16:24] = data[16:24], data[8:16]


def missing(file: str) -> Plant:
    def plant(at: Path) -> Expected:
        (at / file).unlink()
        return {("index_missing", file, None)}

    return plant


def edited(
    kind: str, file: str, change: Callable[[bytearray], None], offset: int | None = None
) -> Plant:
    """Change the bytes of an index."""

    def plant(at: Path) -> Expected:
        edit(at / file, change)
        return {(kind, file, offset)}

    return plant


def time_entry(kind: str, change: Callable[[bytearray], None]) -> Plant:
    """Change the second entry of a time index; the finding has the offset that is then there."""

    def plant(at: Path) -> Expected:
        edit(at / TIMES, change)
        offset = 100 + struct.unpack_from(">i", (at / TIMES).read_bytes(), 20)[0]
        return {(kind, TIMES, offset)}

    return plant


def swap_times(data: bytearray) -> None:
    data[0:12], data[12:24] = data[12:24], data[0:12]


def clear_second_entry(data: bytearray) -> None:
    data[8:16] = bytes(8)


def far_time(data: bytearray) -> None:
    struct.pack_into(">i", data, len(data) - 4, 5000)


def drop_last_time(data: bytearray) -> None:
    del data[-12:]


def earlier_time(data: bytearray) -> None:
    struct.pack_into(">q", data, 12, struct.unpack_from(">q", data, 12)[0] - 1)


def checkpoint(kind: str, file: str, text: str, offset: int | None) -> Plant:
    def plant(at: Path) -> Expected:
        (at.parent / file).write_text(text)
        return {(kind, file, offset)}

    return plant


def watermark_before_start(at: Path) -> Expected:
    (at.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 300\n")
    (at.parent / "replication-offset-checkpoint").write_text("0\n1\norders 0 250\n")
    return {("checkpoint_beyond", "replication-offset-checkpoint", 250)}


def foreign_file(at: Path) -> Expected:
    (at / "notes.txt").write_text("mine")
    return {("foreign_file", "notes.txt", None)}


def unreadable_segment(at: Path) -> Expected:
    (at / "00000000000000000400.log").mkdir()
    for kind in ("index", "timeindex"):
        (at / f"00000000000000000400.{kind}").touch()
    # The previous segment is now sealed and lacks its last entry.
    Segment(at / "00000000000000000300.log").restore_indexes()
    return {
        ("unreadable_file", "00000000000000000400.log", None),
        ("foreign_file", "00000000000000000400.log", None),
    }


INTEGRITY: Final[dict[str, Plant]] = {
    **{f"a flipped bit: {field}": flip_bit(field) for field in _HEADER_FIELDS},
    "magic 0": patched("old_format", 16, b"\0"),
    "magic 1": patched("old_format", 16, b"\1"),
    "magic 9": patched("bad_magic", 16, b"\x09"),
    "an unknown codec": patched("unknown_codec", 21, struct.pack(">h", 6)),
    "a negative offset delta": patched("bad_header", 23, struct.pack(">i", -1)),
    "one record too many in the header": patched("bad_records", 57, struct.pack(">i", 6)),
    "a last offset below the records": patched("record_count", 23, struct.pack(">i", 3)),
    "a maximum timestamp too low": patched("record_timestamp", 35, struct.pack(">q", 5)),
    "a base offset far ahead": patched("offset_too_far", 0, struct.pack(">q", 1 << 40), 1 << 40),
    "a base offset that decreases": patched("offset_overlap", 0, struct.pack(">q", 131), 131),
    "a base offset below the file's": patched("offset_below_segment", 0, struct.pack(">q", 35), 35),
    "a length too large": length_too_large,
    "a length beyond the file": patched("bad_length", 8, struct.pack(">i", 1 << 24)),
    "a length too small": patched("bad_length", 8, struct.pack(">i", 11)),
    "a torn tail in a sealed segment": torn_tail,
    "a sealed segment that ends in zeros": zero_tail,
    "a missing batch": reordered("offset_gap", [*range(7), *range(8, 20)], 140),
    "a missing second batch of the log": reordered("offset_gap", [0, *range(2, 20)], 10, 0),
    "a duplicate batch": reordered("offset_overlap", [*range(8), *range(7, 20)], 135),
    "a missing segment": segment_removed,
    "a missing segment, of which the indexes are left": segment_without_file,
    "a segment with a wrong name": segment_renamed,
    "a record's offset used twice": records_out_of_order,
    "an unterminated varint": patched("bad_records", 61, b"\xff" * 5),
    "garbage in a compressed batch": patched("bad_records", 21, struct.pack(">h", 3)),
    "an epoch that decreases": patched("epoch_back", 12, bytes(4), 215, at_batch=(2, 3)),
    "an epoch that begins too early": patched("epoch_start", 12, struct.pack(">i", 9)),
    "an epoch that begins too late in the checkpoint": epochs(
        "epoch_start", "0 0\n1 205\n", 200, "00000000000000000200.log"
    ),
    "an epoch that begins too early in the checkpoint": epochs("epoch_start", "0 0\n1 190\n", 190),
    "an epoch beyond the log": epochs("epoch_beyond", "0 0\n1 200\n2 900\n", 900),
    "an epoch twice in the checkpoint": epochs("bad_checkpoint_line", "0 0\n1 200\n1 300\n", 300),
    "an index entry inside a batch": index_entry("index_position", shift_position),
    "an index entry off by one batch": index_entry("index_offset", next_batch),
    "an index entry with a wrong offset": index_entry("index_offset", wrong_offset),
    "two index entries swapped": index_entry("index_not_increasing", swap_entries),
    "a truncated index entry": edited("index_cut", INDEX, lambda data: data.extend(b"\1\2\3")),
    "a hole in the index": edited("index_hole", INDEX, clear_second_entry),
    "a missing index": missing(INDEX),
    "a missing time index": missing(TIMES),
    "a time index out of order": time_entry("time_not_increasing", swap_times),
    "a time index entry that is not the maximum": time_entry("time_maximum", earlier_time),
    "a time index entry with a wrong offset": edited("time_offset", TIMES, far_time, 5100),
    "a missing last entry of the time index": edited("time_last_entry", TIMES, drop_last_time),
    "a high watermark beyond the log": checkpoint(
        "checkpoint_beyond", "replication-offset-checkpoint", "0\n1\norders 0 401\n", 401
    ),
    "a recovery point beyond the log": checkpoint(
        "checkpoint_beyond", "recovery-point-offset-checkpoint", "0\n1\norders 0 500\n", 500
    ),
    "a log start beyond the log": checkpoint(
        "checkpoint_beyond", "log-start-offset-checkpoint", "0\n1\norders 0 500\n", 500
    ),
    "a high watermark before the log start": watermark_before_start,
    "a cleaner's point in the active segment": checkpoint(
        "checkpoint_beyond", "cleaner-offset-checkpoint", "0\n1\norders 0 310\n", 310
    ),
    "a checkpoint with an unknown version": checkpoint(
        "bad_checkpoint_line", "replication-offset-checkpoint", "7\n1\norders 0 400\n", None
    ),
    "a checkpoint with a wrong count": checkpoint(
        "bad_checkpoint_line", "replication-offset-checkpoint", "0\n4\norders 0 400\n", None
    ),
    "a checkpoint line with two fields": checkpoint(
        "bad_checkpoint_line", "replication-offset-checkpoint", "0\n1\norders 400\n", None
    ),
    "a partition without a directory": checkpoint(
        "partition_missing", "replication-offset-checkpoint", "0\n2\norders 0 400\ngone 1 7\n", 7
    ),
    "a foreign file": foreign_file,
    "an unreadable segment": unreadable_segment,
}
