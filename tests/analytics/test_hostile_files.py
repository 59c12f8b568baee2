"""An audit of any directory ends with findings: no file makes it crash."""

import shutil
import struct
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analytics import partition_audit, reference, replica_audit
from analytics.discovery import find_replicas
from analytics.file_store import OpenFile
from analytics.segment_range import cut_replicas
from analytics.stream_batches import read_batches
from analytics.stream_progress import LogEnd, LogEnds
from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.log_model import Log, compact, make_log
from tests.analytics.planter import Segment

AUDITS = ["integrity", "compaction", "replicas", "retention", "cost"]
HORIZON_MS = NOW_MS + RULES.delete_retention_ms
TIMED = replace(RULES, retention_ms=1000, retention_bytes=1000)


def small_log() -> Log:
    return make_log(60, 9, per_batch=3, per_segment=5)


def write_all(root: Path) -> list[Path]:
    """Write a compacted log with every kind of file; return the files."""
    directory = compact(small_log(), horizon_ms=HORIZON_MS).write(root)
    (directory / "00000000000000000045.txnindex").write_bytes(
        struct.pack(">hqqqq", 0, 1, 46, 47, 46)
    )
    (directory / "00000000000000000045.snapshot").write_bytes(struct.pack(">hIi", 1, 0, 0))
    return sorted(path for path in root.rglob("*") if path.is_file())


def audit_all(root: Path, raw: Path) -> list[str]:
    """Return the kinds of all findings of every audit, the data source and the stream."""
    kinds: list[str] = []
    for audit in AUDITS:
        against = raw if audit == "compaction" else None
        roots = (root, raw) if audit == "replicas" else (root,)
        kinds += [each.damage for each in findings_of(audit, *roots, against=against, rules=TIMED)]
    kinds += decode_all(root)
    for name, end in LogEnds().find(str(root)).items():
        kinds += [str(row[10]) for row in read_batches(str(root), name, LogEnd(), end) if row[10]]
    return kinds


def decode_all(root: Path) -> list[str]:
    from analytics.decode import decode

    ranges = cut_replicas(find_replicas(str(root), lambda _: None), 300)
    columns = ["offset", "timestamp_ms", "key", "value", "finding"]
    rows = [row for place in ranges for each in decode(place, columns) for row in each.to_pylist()]
    return [row["finding"] for row in rows if row["finding"] is not None]


def overwrite(path: Path, at: int, noise: bytes) -> None:
    data = path.read_bytes()
    at %= len(data) + 1
    path.write_bytes(data[:at] + noise + data[at + len(noise) :])


def truncate(path: Path, at: int, _: bytes) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: at % (len(data) + 1)])


def extend(path: Path, _: int, noise: bytes) -> None:
    path.write_bytes(path.read_bytes() + noise)


def become_directory(path: Path, _at: int, _noise: bytes) -> None:
    path.unlink()
    path.mkdir()


def dangle(path: Path, _at: int, _noise: bytes) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def heal_checksum(path: Path, at: int, noise: bytes) -> None:
    """Write noise into a batch and correct its checksum, so that only the parser can notice."""
    if path.suffix == ".log" and path.stat().st_size:
        segment = Segment(path)
        number = at % len(segment.batches)
        room = len(segment.batches[number]) - 21
        segment.patch(number, 21 + at % room, noise[: room - at % room], with_crc=True)


HARMS = [overwrite, truncate, extend, become_directory, dangle, heal_checksum]
Harm = Callable[[Path, int, bytes], None]
harms = st.lists(
    st.tuples(
        st.integers(0, 100),
        st.sampled_from(HARMS),
        st.integers(0, 100_000),
        st.binary(min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=3,
)


@example([(68, truncate, 19, b"\0"), (68, heal_checksum, 0, b"\0")])
# An index entry with a negative position.
@example([(2, overwrite, 0, b"\x80\x00\x00\x00\x80")])
@settings(max_examples=40, deadline=None)
@given(harms)
def test_no_damaged_file_crashes_an_audit(chosen: list[tuple[int, Harm, int, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, raw = Path(folder) / "clean", Path(folder) / "raw"
        small_log().write(raw)
        files = write_all(root)
        # Checksums first, because only whole batches have one.
        for number, harm, at, noise in sorted(
            chosen, key=lambda each: each[1] is not heal_checksum
        ):
            path = files[number % len(files)]
            if path.is_file() and not path.is_symlink():
                harm(path, at, noise)
        kinds = audit_all(root, raw)
    assert all(kinds), "a finding has no kind"


def test_log_without_a_readable_segment_is_a_finding(tmp_path: Path) -> None:
    small_log().write(tmp_path / "raw")
    for path in write_all(tmp_path / "clean"):
        if path.suffix == ".log":
            dangle(path, 0, b"")
    assert audit_all(tmp_path / "clean", tmp_path / "raw")


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\xff" * 100, b"0\n-1\n", b"0\nx\n", b"99"])
def test_files_of_uniform_content_are_findings(tmp_path: Path, content: bytes) -> None:
    small_log().write(tmp_path / "raw")
    for path in write_all(tmp_path / "clean"):
        path.write_bytes(content)
    assert audit_all(tmp_path / "clean", tmp_path / "raw")


def test_empty_partition_does_not_crash_an_audit(tmp_path: Path) -> None:
    small_log().write(tmp_path / "raw")
    (tmp_path / "clean" / "orders-0").mkdir(parents=True)
    assert audit_all(tmp_path / "clean", tmp_path / "raw") == ["nothing_compared"] * 2
    assert audit_all(tmp_path / "raw", tmp_path / "clean") != ["nothing"]


@pytest.mark.parametrize(
    ("position", "data", "kind"),
    [
        (16, b"\0", "old_format"),
        (16, b"\1", "old_format"),
        (21, b"\0\6", "unknown_codec"),
        (21, b"\0\7", "unknown_codec"),
    ],
)
def test_every_audit_reports_old_formats_and_unknown_codecs(
    tmp_path: Path, position: int, data: bytes, kind: str
) -> None:
    small_log().write(tmp_path / "raw")
    segment = Segment(small_log().write(tmp_path / "clean") / "00000000000000000015.log")
    segment.patch(2, position, data, with_crc=position > 20)
    for audit in AUDITS:
        against = tmp_path / "raw" if audit == "compaction" else None
        found = findings_of(audit, tmp_path / "clean", against=against)
        assert kind in {each.damage for each in found}, audit
        assert {Path(each.file).stem for each in found if each.check == "S1"} == {segment.path.stem}
    assert decode_all(tmp_path / "clean") == [kind]
    [end] = LogEnds().find(str(tmp_path / "clean")).values()
    rows = list(read_batches(str(tmp_path / "clean"), "orders-0", LogEnd(), end))
    assert kind in {row[10] for row in rows}


class ChangingFile(OpenFile):
    """A file that `change` modifies at the first read."""

    change: tuple[str, Callable[[Path], None]] | None = None

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._place = place

    def read_at(self, position: int, size: int) -> memoryview:
        if ChangingFile.change is not None and ChangingFile.change[0] == self._place:
            change, ChangingFile.change = ChangingFile.change[1], None
            change(Path(self._place))
        return super().read_at(position, size)


def cut_half(path: Path) -> None:
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(len(data) // 2)


def empty(path: Path) -> None:
    path.open("wb").close()


def take_away(path: Path) -> None:
    shutil.rmtree(path.parent)


def swap(path: Path) -> None:
    """Replace the segment by another file and delete the next segment, as a cleaner does."""
    other = path.with_suffix(".swap")
    other.write_bytes(path.read_bytes()[:200])
    other.rename(path)
    for following in path.parent.glob("*30.*"):
        following.unlink()


@pytest.mark.parametrize("change", [cut_half, empty, take_away, swap])
@pytest.mark.parametrize(
    ("audit", "where"),
    [("integrity", "log"), ("compaction", "log"), ("compaction", "raw"), ("replicas", "raw")],
)
def test_audit_survives_a_directory_that_changes_while_it_is_read(
    tmp_path: Path,
    audit: str,
    where: str,
    change: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("raw", "log"):
        small_log().write(tmp_path / name)
    place = str(tmp_path / where / "orders-0" / "00000000000000000015.log")
    for module in (replica_audit, partition_audit, reference):
        monkeypatch.setattr(module, "OpenFile", ChangingFile)
    monkeypatch.setattr(ChangingFile, "change", (place, change))
    against = tmp_path / "raw" if audit == "compaction" else None
    others = [tmp_path / "raw"] if audit == "replicas" else []
    found = findings_of(audit, tmp_path / "log", *others, against=against)
    assert ChangingFile.change is None, "the file was never read, so it did not change"
    kinds = {each.damage for each in found if each.file.startswith(str(tmp_path / where))}
    assert kinds <= {
        *("file_vanished", "file_shortened", "torn_tail", "offset_gap", "index_position"),
        *("replica_differs",),
        # After the second look at a file that lost all of its records in place.
        *("time_offset", "cleaned_beyond_checkpoint"),
    }
    assert kinds
    assert len({each.file.startswith(str(tmp_path / where)) for each in found}) == 1
