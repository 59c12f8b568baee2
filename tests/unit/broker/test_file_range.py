"""A region's bytes leave once, in order, and never fewer than were promised."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import pytest

from broker.file_range import FileRange, TruncatedRegionError


@dataclass
class Region:
    file: BufferedReader
    position: int
    size_bytes: int


@pytest.fixture
def file(tmp_path: Path) -> Iterator[BufferedReader]:
    path = tmp_path / "log"
    path.write_bytes(bytes(range(256)))
    with path.open("rb") as opened:
        yield opened


def test_it_is_read_in_pieces(file: BufferedReader) -> None:
    rest = FileRange(Region(file, 10, 100))
    assert rest.read(60) == bytes(range(10, 70))
    assert rest.bytes_left == 40
    assert rest.read(60) == bytes(range(70, 110))
    assert rest.bytes_left == 0
    assert rest.read(60) == b""


def test_an_empty_region_is_read_as_nothing(file: BufferedReader) -> None:
    assert FileRange(Region(file, 300, 0)).read(10) == b""


def test_it_is_sent_in_pieces(file: BufferedReader) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        rest = FileRange(Region(file, 10, 100))
        assert rest.send(ours.fileno(), 60) == 60
        assert rest.send(ours.fileno(), 60) == 40
        assert theirs.recv(1000) == bytes(range(10, 110))


def test_a_file_that_became_shorter_is_an_error(file: BufferedReader) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reading = FileRange(Region(file, 200, 100))
        sending = FileRange(Region(file, 200, 100))
        assert len(reading.read(1000)) == 56
        assert sending.send(ours.fileno(), 1000) == 56
        message = "the file ends at 256, 44 of 100 bytes that were promised are missing"
        with pytest.raises(TruncatedRegionError, match=message):
            reading.read(1000)
        with pytest.raises(TruncatedRegionError, match=message):
            sending.send(ours.fileno(), 1000)


def test_a_deleted_file_is_read_to_the_end(file: BufferedReader) -> None:
    rest = FileRange(Region(file, 0, 256))
    os.unlink(file.name)  # noqa: PTH108
    assert rest.read(256) == bytes(range(256))


def test_a_full_socket_says_so(file: BufferedReader) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        rest = FileRange(Region(file, 0, 256))
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(bytes(100_000))
        with pytest.raises(BlockingIOError):
            rest.send(ours.fileno(), 256)
        assert rest.bytes_left == 256
