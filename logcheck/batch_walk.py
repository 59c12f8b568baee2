"""The batches of one segment in order, and the holes between sound batches (decision).

A batch header contains the length of the batch. Where the length or the checksum is wrong, the
walk searches for the next sound batch, so that damage hides as little as possible.
Bytes come from a random-access source. Memory is one chunk, or one batch larger than that.
"""

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from struct import Struct
from typing import Final, NamedTuple, Protocol

from crc32c import crc32c

from kafkawire.columns_loops import SoundBatch
from kafkawire.compression import Codec
from kafkawire.errors import CorruptBatchError
from kafkawire.native import read_plain_batches
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    read_header,
)
from logcheck.finding import Check, Damage, Finder, Report, Severity

# Search range after damage. Kafka's own readers would not find a sound batch beyond it either.
RESYNC_BYTES: Final = 4 * 1024 * 1024
RESYNC_CHECKED_BYTES: Final = 256 * 1024 * 1024
"""Largest amount of data in the checksums of one search, except for its first batch.

A client can store a value that looks like the headers of thousands of batches of a gigabyte."""
_PREFIX: Final = Struct(">qiib")
_MAGIC_POSITION: Final = 16
# The checksum covers all bytes from here to the end of the batch.
_CRC_END: Final = 21
_CODEC_MASK: Final = 0b111
_CODEC_COUNT: Final = len(Codec)
_OLD_MAGICS: Final = (0, 1)
MAX_RUN: Final = 256
"""Largest number of plain batches in one list of `Walk.runs`."""


class Source(Protocol):
    """A random-access source of bytes."""

    size_bytes: int
    chunk_bytes: int
    """Preferred size of one read."""

    def read_at(self, position: int, size: int) -> memoryview:
        """Return up to `size` bytes from `position`."""

    def has_grown_to(self, size_bytes: int) -> bool:
        """Whether the file has at least this size by now, since a live broker may append."""

    def behind_hole(self, position: int) -> int:
        """Return where a hole at `position` ends, or `position`; a hole reads as zeros."""


class Batch(NamedTuple):
    """A batch with a correct checksum, and its position; `data` includes the header."""

    position: int
    header: BatchHeader
    data: memoryview


class Hole(NamedTuple):
    """A position without a sound batch; the damage has been reported."""

    position: int
    is_tail: bool
    """Whether the file merely ends there, within a batch or in zeros."""
    batch: Batch | None
    """The batch, if its checksum alone is wrong."""


class _Window:
    """The most recently read part of the source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._bytes = memoryview(b"")
        self._start = 0

    def at(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position`, fewer only at the end of the source."""
        return self.from_position(position, size)[:size]

    def from_position(self, position: int, size: int) -> memoryview:
        """Return all buffered bytes from `position`: at least `size`, unless the source ends."""
        offset = position - self._start
        if offset < 0 or offset + size > len(self._bytes):
            self._bytes = self._source.read_at(position, max(self._source.chunk_bytes, size))
            self._start, offset = position, 0
        return self._bytes[offset:]


@dataclass(slots=True)
class Walk:
    """One walk over a segment. Afterwards `end_position` is its end, without a torn tail."""

    source: Source
    file: str
    report: InitVar[Report]
    is_tail_allowed: bool = False
    """Whether a crash or a live writer may have left a torn end: it is then only a note."""
    end_position: int = 0
    _finder: Finder = field(init=False)

    def __post_init__(self, report: Report) -> None:
        self._finder = Finder(Check.BATCHES, report)

    def items(self, start: int = 0, end: int | None = None) -> Iterator[Batch | Hole]:
        """Yield the batches that begin in `start..end` (exclusive). A batch begins at `start`."""
        for item in self._found(start, end, plain_limit=0):
            assert not isinstance(item, list)
            yield item

    def runs(self) -> Iterator[list[SoundBatch] | Batch | Hole]:
        """Yield all batches of the file. Plain batches without any damage come in lists."""
        return self._found(0, None, plain_limit=MAX_RUN)

    def _found(
        self, start: int, end: int | None, *, plain_limit: int
    ) -> Iterator[list[SoundBatch] | Batch | Hole]:
        window = _Window(self.source)
        limit = self.source.size_bytes
        stop = limit if end is None else min(end, limit)
        position = start
        while position < stop:
            if plain_limit:
                data = window.from_position(position, BATCH_HEADER_BYTES)
                run = read_plain_batches(data, self.file, position, plain_limit)
                if run:
                    yield run
                    last = run[-1]
                    position = self.end_position = last.position + len(last.data)
                    continue
            batch = self._batch_at(window, position, limit)
            if batch is not None and _is_sound(batch):
                yield batch
                position = self.end_position = position + len(batch.data)
                continue
            following = self._behind(window, position, batch, limit)
            is_tail = following == limit and batch is None and self._reports_tail(window, position)
            if not is_tail:
                self._report_damage(window, position, batch)
            yield Hole(position, is_tail, batch)
            position = following
            if not is_tail:
                self.end_position = position

    def _batch_at(self, window: _Window, position: int, limit: int) -> Batch | None:
        """Return the batch at `position`, its checksum unverified; None if none can begin there."""
        data = window.from_position(position, BATCH_HEADER_BYTES)
        try:
            header = read_header(data)
        except CorruptBatchError:
            return None
        size = LOG_OVERHEAD_BYTES + header.batch_length
        if header.attributes & _CODEC_MASK >= _CODEC_COUNT:
            return None
        if position + size > limit and not self.source.has_grown_to(position + size):
            return None
        # Most batches are complete in the bytes already read for their header.
        if len(data) < size:
            data = window.from_position(position, size)
            if len(data) < size:
                return None
        # `Batch(...)` is a Python function and takes twice as long.
        return tuple.__new__(Batch, (position, header, data[:size]))

    def _behind(self, window: _Window, position: int, batch: Batch | None, limit: int) -> int:
        """Return the position where the walk continues after damage at `position`."""
        if batch is not None:
            # If only the checksum is wrong, the length leads to the next batch.
            following = position + len(batch.data)
            if following == limit:
                return following
            next_batch = self._batch_at(window, following, limit)
            if next_batch is not None and _is_sound(next_batch):
                return following
        return self._resync(window, position, limit)

    def _resync(self, window: _Window, position: int, limit: int) -> int:
        """Return the position of the next sound batch; `limit` if there is none in range."""
        budget_bytes = RESYNC_CHECKED_BYTES
        data = bytes(window.at(position, min(RESYNC_BYTES, limit - position)))
        at = data.find(MAGIC, _MAGIC_POSITION + 1)
        while at >= 0 and budget_bytes > 0:
            batch = self._batch_at(window, position + at - _MAGIC_POSITION, limit)
            if batch is not None:
                if _is_sound(batch):
                    return batch.position
                budget_bytes -= len(batch.data)
            at = data.find(MAGIC, at + 1)
        return limit

    def _reports_tail(self, window: _Window, position: int) -> bool:
        """Report an end that is merely torn or zero; return False for any other damage."""
        left = self.source.size_bytes - position
        prefix = window.at(position, _PREFIX.size)
        severity = Severity.NOTE if self.is_tail_allowed else Severity.ERROR
        if self._is_zero_from(position):
            found = f"{left} zero bytes"
            self._find(Damage.ZERO_TAIL, position, None, "batches", found, severity)
            return True
        if self.is_tail_allowed and prefix != self.source.read_at(position, len(prefix)):
            # A broker has written there since: these bytes are no longer in the file.
            found = f"{left} bytes, to which a broker writes"
            self._find(Damage.TORN_TAIL, position, None, "batches", found, Severity.NOTE)
            return True
        if len(prefix) == _PREFIX.size:
            offset, length, _, magic = _PREFIX.unpack(prefix)
            size = LOG_OVERHEAD_BYTES + length
            if magic != MAGIC or size <= left:
                return False
            expected = f"a batch of {size} bytes from offset {offset}"
        else:
            expected = "a complete batch"
        self._find(Damage.TORN_TAIL, position, None, expected, f"{left} bytes", severity)
        return True

    def _report_damage(self, window: _Window, position: int, batch: Batch | None) -> None:
        prefix = window.at(position, BATCH_HEADER_BYTES)
        if batch is not None:
            offset, crc = batch.header.base_offset, batch.header.crc
            expected = f"bytes with the checksum {crc:#010x}"
            self._find(Damage.BAD_CRC, position, offset, expected, "another checksum")
        elif len(prefix) < BATCH_HEADER_BYTES:
            found = f"{len(prefix)} bytes"
            self._find(Damage.BAD_HEADER, position, None, "a complete header", found)
        else:
            self._report_header(prefix, position)

    def _report_header(self, prefix: memoryview, position: int) -> None:
        """Report the first reason why no batch begins with the header `prefix`."""
        offset, length, _, magic = _PREFIX.unpack_from(prefix)
        if magic != MAGIC:
            damage = Damage.OLD_FORMAT if magic in _OLD_MAGICS else Damage.BAD_MAGIC
            self._find(damage, position, offset, f"magic {MAGIC}", f"magic {magic}")
            return
        least = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES
        left = self.source.size_bytes - position - LOG_OVERHEAD_BYTES
        if not least <= length <= left:
            expected = f"{least} to {left} bytes"
            self._find(Damage.BAD_LENGTH, position, offset, expected, str(length))
            return
        try:
            codec = read_header(prefix).attributes & _CODEC_MASK
        except CorruptBatchError as error:
            self._find(Damage.BAD_HEADER, position, offset, "valid header fields", str(error))
            return
        if codec >= _CODEC_COUNT:
            expected = f"codec 0 to {_CODEC_COUNT - 1}"
            self._find(Damage.UNKNOWN_CODEC, position, offset, expected, f"codec {codec}")
            return
        expected = f"{length} bytes after the length field"
        found = "a file that became shorter while it was read"
        self._find(Damage.FILE_SHORTENED, position, offset, expected, found, Severity.WARNING)

    def _find(
        self,
        damage: Damage,
        position: int,
        offset: int | None,
        expected: str,
        found: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        self._finder.find(damage, self.file, position, offset, expected, found, severity)

    def _is_zero_from(self, position: int) -> bool:
        limit = self.source.size_bytes
        # A hole of many gigabytes is not read.
        while (position := self.source.behind_hole(position)) < limit:
            size = min(self.source.chunk_bytes, limit - position)
            block = bytes(self.source.read_at(position, size))
            if not block or block.strip(b"\0"):
                return False
            position += len(block)
        return True


def _is_sound(batch: Batch) -> bool:
    return crc32c(batch.data[_CRC_END:]) == batch.header.crc
