"""Decision: the batches of one segment, one after the other, and what stands where none is.

A batch says its own length, so behind a damaged length nothing can be found: the walk ends there.
Bytes come from a source that reads at positions; memory is one chunk, or one larger batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple, Protocol

from analytics.finding import Check, Finding, Report, Severity
from kafkawire.columns_scanner import SectionSurvey
from kafkawire.compression import Codec
from kafkawire.errors import CorruptBatchError
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    read_header,
)

CHUNK_BYTES: Final = 4 * 1024 * 1024
_PREFIX: Final = Struct(">qiib")
_CODEC_MASK: Final = 0b111
_CODEC_COUNT: Final = len(Codec)


class Source(Protocol):
    """Where bytes come from."""

    size_bytes: int

    def read_at(self, position: int, size: int) -> memoryview:
        """Up to `size` bytes from `position` on."""


class Batch(NamedTuple):
    """One batch in place; `data` is all of it, header included."""

    position: int
    header: BatchHeader
    data: memoryview


class SoundBatch(NamedTuple):
    """A batch whose checksum and records are right, with its records decompressed."""

    file: str
    position: int
    header: BatchHeader
    data: memoryview
    section: memoryview
    survey: SectionSurvey


class Hole(NamedTuple):
    """A place where no sound header stands; what is wrong there was reported."""

    position: int
    is_tail: bool
    """Whether the file merely ends there, within a batch or in zeros."""


@dataclass(slots=True)
class Walk:
    """One walk over a segment; after it, `end_position` says how far whole batches reach."""

    source: Source
    file: str
    report: Report
    is_tail_allowed: bool = False
    """Whether a torn end is what a crash or a live writer leaves: then it is a note."""
    end_position: int = 0

    def items(self, start: int = 0, end: int | None = None) -> Iterator[Batch | Hole]:
        """Yield the batches that begin in `start..end` (exclusive); one begins at `start`."""
        limit = self.source.size_bytes
        stop = limit if end is None else min(end, limit)
        chunk, chunk_start = memoryview(b""), start
        position = start
        while position < stop:
            at = position - chunk_start
            size = self._size_at(chunk, at)
            if size == 0 or at + size > len(chunk):
                if limit - position < max(size, _PREFIX.size):
                    self._report_tail(position, limit, size)
                    yield Hole(position, is_tail=True)
                    break
                chunk = self.source.read_at(position, max(CHUNK_BYTES, size))
                if len(chunk) < max(size, _PREFIX.size):
                    self._report_tail(position, position + len(chunk), size)
                    yield Hole(position, is_tail=True)
                    break
                chunk_start = position
                continue
            if size < BATCH_HEADER_BYTES:
                yield Hole(position, is_tail=self._report_length(chunk[at:], position, limit))
                break
            batch = chunk[at : at + size]
            header = self._header_of(batch, position)
            position += size
            if header is None:
                yield Hole(position - size, is_tail=False)
            else:
                yield Batch(position - size, header, batch)
            self.end_position = position
        else:
            self.end_position = max(self.end_position, position)

    def _size_at(self, chunk: memoryview, at: int) -> int:
        """Size of the batch at `at`; 0 when the chunk does not reach to its length."""
        if at + _PREFIX.size > len(chunk):
            return 0
        length: int = _PREFIX.unpack_from(chunk, at)[1]
        return max(LOG_OVERHEAD_BYTES + length, 1)

    def _header_of(self, batch: memoryview, position: int) -> BatchHeader | None:
        offset, _, _, magic = _PREFIX.unpack_from(batch)
        if magic != MAGIC:
            what = "old_format" if magic in (0, 1) else "bad_magic"
            self._find(what, position, offset, f"magic {MAGIC}", f"magic {magic}")
            return None
        try:
            header = read_header(batch)
        except CorruptBatchError as error:
            self._find("bad_header", position, offset, "values that a batch can have", str(error))
            return None
        if header.attributes & _CODEC_MASK >= _CODEC_COUNT:
            codec = header.attributes & _CODEC_MASK
            self._find("unknown_codec", position, offset, "codec 0 to 4", f"codec {codec}")
            return None
        return header

    def _report_length(self, rest: memoryview, position: int, limit: int) -> bool:
        """Report a length that no batch has; whether it is one of the zeros behind the log."""
        offset, length, _, _ = _PREFIX.unpack_from(rest)
        if offset == 0 and length == 0 and self._is_zero_from(position, limit):
            self._find_tail("zero_tail", position, None, f"{limit - position} zero bytes")
            return True
        least = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES
        self._find("bad_length", position, offset, f"a length from {least} on", str(length))
        return False

    def _report_tail(self, position: int, limit: int, size: int) -> None:
        if self._is_zero_from(position, limit):
            self._find_tail("zero_tail", position, None, f"{limit - position} zero bytes")
            return
        expected = "a whole batch" if size == 0 else f"a batch of {size} bytes"
        self._find_tail("torn_tail", position, None, f"{limit - position} bytes", expected)

    def _is_zero_from(self, position: int, limit: int) -> bool:
        while position < limit:
            block = bytes(self.source.read_at(position, min(CHUNK_BYTES, limit - position)))
            if not block or block.strip(b"\0"):
                return False
            position += len(block)
        return True

    def _find_tail(
        self, what: str, position: int, offset: int | None, found: str, expected: str = "batches"
    ) -> None:
        severity = Severity.NOTE if self.is_tail_allowed else Severity.ERROR
        self._find(what, position, offset, expected, found, severity)

    def _find(
        self,
        what: str,
        position: int,
        offset: int | None,
        expected: str,
        found: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        self.report(
            Finding(
                check=Check.BATCHES,
                what=what,
                file=self.file,
                position=position,
                offset=offset,
                expected=expected,
                found=found,
                severity=severity,
            )
        )
