"""A naive auditor of a partition's files, which reads and keeps all data and searches linearly.

It shares no line with the checks of `analytics`. It defines the formats again, and states each rule
in the plainest way, however slow. `test_naive_structure.py` compares both on random logs with
random faults.
"""

import gzip
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
Found = tuple[str, str, int | None]
"""Kind, file name and offset of a finding."""


@dataclass
class Batch:
    """One batch of a file, by its header."""

    position: int
    base: int
    last: int
    epoch: int
    newest_ms: int
    data: bytes
    count: int = 0
    is_accepted: bool = True
    is_end_known: bool = True


@dataclass
class Segment:
    """One `.log` file and its batches."""

    path: Path
    base: int
    batches: list[Batch] = field(default_factory=list)
    is_cut: bool = False
    is_last: bool = False

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def accepted(self) -> list[Batch]:
        return [batch for batch in self.batches if batch.is_accepted]

    @property
    def damaged_positions(self) -> list[int]:
        cut = [self.end] if self.is_cut and not self.is_last else []
        return [batch.position for batch in self.batches if not batch.is_accepted] + cut

    @property
    def end(self) -> int:
        return sum(len(batch.data) for batch in self.batches)


class NaiveAuditor:
    """The audit of one partition's directory; `found` contains its findings."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.found: set[Found] = set()
        paths = sorted(path for path in directory.glob("*.log"))
        self.segments = [Segment(path, int(path.stem)) for path in paths]
        self.segments[-1].is_last = True
        for segment in self.segments:
            self._read(segment)
        self._judge_offsets()

    @property
    def accepted(self) -> list[Batch]:
        return [batch for segment in self.segments for batch in segment.accepted]

    @property
    def start(self) -> int:
        """The first offset of the log, by its files and its checkpoint."""
        return max(self.segments[0].base, self._checkpoint("log-start-offset-checkpoint") or 0)

    @property
    def end(self) -> int:
        """The offset after the last readable batch (exclusive)."""
        reached = [batch.last + 1 for batch in self.accepted]
        return max([*reached, *(segment.base for segment in self.segments)])

    @property
    def is_end_known(self) -> bool:
        """Whether no damage follows the last readable batch."""
        for segment in reversed(self.segments):
            if segment.accepted:
                behind = segment.accepted[-1].position
                return not any(position > behind for position in segment.damaged_positions)
            if segment.damaged_positions:
                return False
            if segment.base == self.end:
                # The base offset in this file's name ends the damage before it.
                return True
        return True

    def integrity(self) -> set[Found]:
        """Return the findings expected of `ottla audit integrity`."""
        for segment in self.segments:
            self._judge_index(segment)
            self._judge_times(segment)
        self._judge_epochs()
        self._judge_checkpoints()
        return self.found

    def _find(self, kind: str, file: str, offset: int | None) -> None:
        self.found.add((kind, file, offset))

    # --- batches and offsets

    def _read(self, segment: Segment) -> None:
        data, position = segment.path.read_bytes(), 0
        while position < len(data):
            size = size_at(data, position)
            if size is None:
                segment.is_cut = True
                self._find("torn_tail", segment.name, None)
                return
            is_sound = is_sound_at(data, position)
            following = position + size
            if not is_sound and following < len(data) and not is_sound_at(data, following):
                # The length may be wrong: everything up to the next sound batch is one damage.
                places = range(position + 1, len(data))
                following = next((at for at in places if is_sound_at(data, at)), len(data))
            head = HEADER.unpack_from(data, position)
            base, _, epoch, _, _, attributes, delta, base_ms, newest_ms, *_, count = head
            whole = data[position:following]
            batch = Batch(position, base, base + delta, epoch, newest_ms, whole, count, is_sound)
            segment.batches.append(batch)
            if is_sound:
                self._judge_records(segment, batch, count, delta, base_ms, attributes)
            else:
                self._find("bad_crc", segment.name, base)
            position = following

    def _judge_records(
        self, segment: Segment, batch: Batch, count: int, delta: int, base_ms: int, attributes: int
    ) -> None:
        section = batch.data[HEADER.size :]
        if attributes & 7 == 1:
            section = gzip.decompress(section)
        records = list(walk_records(section))
        if len(records) != count:
            batch.is_accepted = False
            self._find("bad_records", segment.name, batch.base)
            return
        deltas = [offset_delta for _, offset_delta in records]
        if count > delta + 1:
            batch.is_end_known = False
            self._find("record_count", segment.name, batch.base)
        elif deltas != sorted(set(deltas)) or any(each > delta for each in deltas):
            self._find("record_offset", segment.name, batch.base)
        if records and max(base_ms + time_delta for time_delta, _ in records) != batch.newest_ms:
            self._find("record_timestamp", segment.name, batch.base)

    def _judge_offsets(self) -> None:
        wanted: int | None = None
        # After damage the next offset is unknown.
        is_next_known = False
        # Only the first of the unexplained gaps is a finding.
        holes: list[tuple[str, int]] = []
        for segment in self.segments:
            if wanted is not None and segment.base < wanted:
                self._find("segment_overlap", segment.name, segment.base)
            elif wanted is not None:
                if segment.base > wanted and is_next_known:
                    holes.append((segment.name, segment.base))
                is_next_known = True
            wanted = segment.base if wanted is None else max(wanted, segment.base)
            for batch in segment.batches:
                if batch.is_accepted and batch.base < segment.base:
                    batch.is_accepted = False
                    self._find("offset_below_segment", segment.name, batch.base)
                elif batch.is_accepted and batch.base < wanted:
                    batch.is_accepted = False
                    self._find("offset_overlap", segment.name, batch.base)
                if not batch.is_accepted:
                    is_next_known = False
                    continue
                if batch.base > wanted and is_next_known:
                    holes.append((segment.name, batch.base))
                wanted = batch.last + 1
                is_next_known = batch.is_end_known
            if segment.is_cut and not segment.is_last:
                is_next_known = False
        self._find_first("offset_gap", [each for each in holes if each[1] - 1 >= self.explained])
        short = [
            (segment.name, batch.base)
            for segment in self.segments
            for batch in segment.accepted
            if batch.count < batch.last - batch.base + 1
        ]
        self._find_first("records_missing", [each for each in short if each[1] >= self.explained])

    def _find_first(self, kind: str, places: list[tuple[str, int]]) -> None:
        if places:
            self._find(kind, *places[0])

    @property
    def explained(self) -> int:
        """The offset below which retention or the cleaner explains every absence."""
        names = ("cleaner-offset-checkpoint", "log-start-offset-checkpoint")
        return max(self._checkpoint(name) or 0 for name in names)

    # --- indexes

    def _judge_index(self, segment: Segment) -> None:
        path = segment.path.with_suffix(".index")
        entries = self._entries(path, ">ii", "index_missing", "index_cut")
        batches, before = segment.accepted, (-1, -1)
        for number, (relative, position) in enumerate(entries):
            offset = segment.base + relative
            if offset <= before[0] or position <= before[1]:
                self._find("index_not_increasing", path.name, offset)
                continue
            before = offset, position
            here = [batch for batch in batches if batch.position == position]
            if not here:
                damages = segment.damaged_positions
                is_behind = bool(damages) and position >= segment.end
                if position not in damages and not is_behind:
                    self._find("index_position", path.name, offset)
                continue
            following = entries[number + 1][1] if number + 1 < len(entries) else segment.end
            leads_there = here[0].last == offset or any(
                batch.last == offset and position < batch.position < following for batch in batches
            )
            is_lost = bool(segment.damaged_positions) and not any(
                batch.base <= offset <= batch.last for batch in batches
            )
            if not leads_there and not is_lost:
                self._find("index_offset", path.name, offset)

    def _judge_times(self, segment: Segment) -> None:
        path = segment.path.with_suffix(".timeindex")
        is_there = path.exists()
        entries = self._entries(path, ">qi", "index_missing", "index_cut")
        batches, damages = segment.accepted, segment.damaged_positions
        before, is_right = (-1, -1), True
        for newest_ms, relative in entries:
            offset = segment.base + relative
            if newest_ms <= before[0] or offset < before[1]:
                self._find("time_not_increasing", path.name, offset)
                is_right = False
                continue
            before = newest_ms, offset
            here = [batch for batch in batches if batch.base <= offset <= batch.last]
            if not here:
                if not damages:
                    self._find("time_offset", path.name, offset)
                continue
            if damages and here[0].position > min(damages):
                continue
            up_to = [batch for batch in batches if batch.position <= here[0].position]
            if max(batch.newest_ms for batch in up_to) != newest_ms:
                self._find("time_maximum", path.name, offset)
                is_right = False
            elif any(batch.newest_ms >= newest_ms for batch in up_to[:-1]):
                self._find("time_offset", path.name, offset)
        newest = max((batch.newest_ms for batch in batches), default=-1)
        is_judged = is_there and not segment.is_last and not damages and is_right
        if is_judged and before[0] < newest:
            self._find("time_last_entry", path.name, None)

    def _entries(self, path: Path, layout: str, missing: str, cut: str) -> list[tuple[int, int]]:
        if not path.exists():
            self._find(missing, path.name, None)
            return []
        data, size = path.read_bytes(), struct.calcsize(layout)
        if len(data) % size:
            self._find(cut, path.name, None)
        return list(struct.iter_unpack(layout, data[: len(data) - len(data) % size]))

    # --- epochs and checkpoints

    def _judge_epochs(self) -> None:
        name = "leader-epoch-checkpoint"
        lines: list[tuple[int, int]] = []
        for line in (self.directory / name).read_text().splitlines()[2:]:
            epoch, start = map(int, line.split())
            if lines and (epoch <= lines[-1][0] or start < lines[-1][1]):
                self._find("bad_checkpoint_line", name, start)
            else:
                lines.append((epoch, start))
        self._judge_first_epoch(name, [start for _, start in lines])
        newest = -1
        files = {id(batch): segment.name for segment in self.segments for batch in segment.batches}
        for epoch, run in self._runs():
            batches = list(run)
            first, last = batches[0], batches[-1].last
            valid = [each for each, start in lines if start <= first.base]
            if epoch < newest:
                self._find("epoch_back", files[id(first)], first.base)
            elif valid and valid[-1] != epoch:
                self._find("epoch_start", files[id(first)], first.base)
            else:
                newest = epoch
                inside = [start for _, start in lines if first.base < start <= last]
                if valid and inside:
                    self._find("epoch_start", name, inside[0])
        for _, start in lines:
            if self.is_end_known and start > self.end:
                self._find("epoch_beyond", name, start)

    def _judge_first_epoch(self, name: str, starts: list[int]) -> None:
        """Judge the first run of batches that is on disk: DeleteRecords reaches one segment."""
        begun = [next(run).base for epoch, run in self._runs() if epoch >= 0]
        log_start = self._checkpoint("log-start-offset-checkpoint") or 0
        first = next((base for base in begun if base >= log_start), None)
        if first is None or first >= (self._checkpoint("recovery-point-offset-checkpoint") or 0):
            return
        if starts and starts[0] > first:
            bases = [segment.base for segment in self.segments]
            if len(bases) > 1 and starts[0] > bases[1]:
                self._find("epoch_start", name, first)
        elif not starts:
            self._find("epoch_start", name, first)

    def _runs(self) -> Iterator[tuple[int, Iterator[Batch]]]:
        return groupby(self.accepted, lambda batch: batch.epoch)

    def _judge_checkpoints(self) -> None:
        if not self.is_end_known:
            return
        names = ("log-start", "recovery-point", "replication")
        values = {name: self._checkpoint(f"{name}-offset-checkpoint") for name in names}
        for name, value in values.items():
            if value is not None and value > self.end:
                self._find("checkpoint_beyond", f"{name}-offset-checkpoint", value)
        start, watermark = values["log-start"] or 0, values["replication"]
        if watermark is not None and watermark < min(start, self.end):
            self._find("checkpoint_beyond", "replication-offset-checkpoint", watermark)
        cleaner = self._checkpoint("cleaner-offset-checkpoint")
        if cleaner is not None and cleaner > max(self.segments[-1].base, start):
            self._find("checkpoint_beyond", "cleaner-offset-checkpoint", cleaner)

    def _checkpoint(self, name: str) -> int | None:
        path = self.directory.parent / name
        return int(path.read_text().split()[-1]) if path.exists() else None


def size_at(data: bytes, position: int) -> int | None:
    """Return the size in the header of the batch at `position`; None if the file is shorter."""
    if position + HEADER.size > len(data):
        return None
    size: int = 12 + HEADER.unpack_from(data, position)[1]
    return size if position + size <= len(data) else None


def is_sound_at(data: bytes, position: int) -> bool:
    """Whether a batch with a correct checksum begins at `position`."""
    size = size_at(data, position)
    if size is None or size < HEADER.size or data[position + 16] != 2:
        return False
    crc: int = HEADER.unpack_from(data, position)[4]
    return crc32c(data[position + 21 : position + size]) == crc


def walk_records(section: bytes) -> Iterator[tuple[int, int]]:
    """Yield (timestamp delta, offset delta) of each record of a sound section."""
    position = 0
    while position < len(section):
        size, position = zigzag(section, position)
        time_delta, inside = zigzag(section, position + 1)
        offset_delta, _ = zigzag(section, inside)
        yield time_delta, offset_delta
        position += size


def zigzag(data: bytes, position: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    end = position
    while data[end] & 0x80:
        end += 1
    number = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data[position : end + 1]))
    return (number // 2 if number % 2 == 0 else -(number + 1) // 2), end + 1


def compare_replicas(first: NaiveAuditor, other: NaiveAuditor) -> set[Found]:
    """Return the findings expected of S4 in `other`: differences below both watermarks."""
    watermarks = [
        each.directory.parent / "replication-offset-checkpoint" for each in (first, other)
    ]
    # Everything below both high watermarks was on both replicas once.
    bound = min(int(path.read_text().split()[-1]) for path in watermarks)
    start = max(first.start, other.start)
    here = {batch.base: batch.data for batch in first.accepted if start <= batch.base < bound}
    there = {batch.base: batch.data for batch in other.accepted if start <= batch.base < bound}
    offsets = {each for each in here.keys() | there.keys() if here.get(each) != there.get(each)}
    return {
        ("replica_differs", "", each)
        for each in offsets
        if not any(is_unreadable(auditor, each) for auditor in (first, other))
    }


def is_unreadable(auditor: NaiveAuditor, offset: int) -> bool:
    """Whether the offset may lie in damage between two accepted batches."""
    reached = auditor.segments[0].base
    is_damaged = False
    for segment in auditor.segments:
        if is_damaged and reached < segment.base and reached <= offset < segment.base:
            return True
        if segment.base >= reached:
            reached, is_damaged = segment.base, False
        places = [(batch.position, batch) for batch in segment.batches]
        for _, batch in places:
            if not batch.is_accepted:
                is_damaged = True
                continue
            if is_damaged and reached <= offset < batch.base:
                return True
            reached = batch.last + 1
            is_damaged = False
        if segment.is_cut and not segment.is_last:
            is_damaged = True
    return is_damaged and offset >= reached
