"""Edits of a log's files, byte by byte, which plant violations."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from crc32c import crc32c

from kafkawire.records import BatchHeader, read_header


class Segment:
    """The `.log` file of one segment, for changes batch by batch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.batches: list[bytes] = []
        data, position = path.read_bytes(), 0
        while position < len(data):
            size = 12 + struct.unpack_from(">i", data, position + 8)[0]
            self.batches.append(data[position : position + size])
            position += size

    def position(self, number: int) -> int:
        return sum(len(batch) for batch in self.batches[:number])

    def header(self, number: int) -> BatchHeader:
        return read_header(self.batches[number])

    def flip(self, number: int, at: int, bit: int = 0, *, with_crc: bool = False) -> None:
        """Flip one bit; `with_crc` corrects the checksum."""
        batch = bytearray(self.batches[number])
        batch[at] ^= 1 << bit
        self.put(number, bytes(batch), with_crc=with_crc)

    def patch(self, number: int, at: int, data: bytes, *, with_crc: bool = False) -> None:
        batch = bytearray(self.batches[number])
        batch[at : at + len(data)] = data
        self.put(number, bytes(batch), with_crc=with_crc)

    def put(self, number: int, batch: bytes, *, with_crc: bool = False) -> None:
        fresh = bytearray(batch)
        if with_crc:
            struct.pack_into(">I", fresh, 17, crc32c(bytes(fresh[21:])))
        self.batches[number] = bytes(fresh)
        self.save()

    def reorder(self, numbers: Sequence[int]) -> None:
        self.batches = [self.batches[number] for number in numbers]
        self.save()

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def save(self) -> None:
        self.path.write_bytes(b"".join(self.batches))

    def restore_indexes(self) -> None:
        """Write indexes that match the current batches."""
        base = int(self.path.stem)
        index, times, newest, position, since, last = bytearray(), bytearray(), -1, 0, 0, (-1, 0)
        for batch in self.batches:
            header = read_header(batch)
            if header.max_timestamp_ms > newest:
                newest, last = (
                    header.max_timestamp_ms,
                    (header.max_timestamp_ms, header.last_offset),
                )
            if since > 256:
                index += struct.pack(">ii", header.last_offset - base, position)
                since = 0
            since += len(batch)
            position += len(batch)
        if newest >= 0:
            times += struct.pack(">qi", last[0], last[1] - base)
        self.path.with_suffix(".index").write_bytes(index)
        self.path.with_suffix(".timeindex").write_bytes(times)


def edit(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def segments(directory: Path) -> list[Segment]:
    return [Segment(path) for path in sorted(directory.glob("*.log")) if path.is_file()]
