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

from broker.file_range import WINDOW_BYTES, FileRange, TruncatedRegionError


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


@pytest.fixture
def cold_file(tmp_path: Path) -> Iterator[BufferedReader]:
    """A file of which nothing is in memory."""
    path = tmp_path / "cold"
    path.write_bytes(bytes(2 * WINDOW_BYTES))
    with path.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if not FileRange(Region(opened, 0, 1)).is_cold():
            pytest.skip("this file system does not tell what is in memory")
        yield opened


def test_what_was_just_written_is_not_cold(file: BufferedReader) -> None:
    assert not FileRange(Region(file, 0, 256)).is_cold()


def test_an_empty_region_is_never_cold(cold_file: BufferedReader) -> None:
    assert not FileRange(Region(cold_file, 0, 0)).is_cold()


def test_a_cold_region_is_warmed_up_window_by_window(cold_file: BufferedReader) -> None:
    rest = FileRange(Region(cold_file, 0, 2 * WINDOW_BYTES))
    assert rest.is_cold()
    rest.warm_up()
    assert not rest.is_cold()
    assert len(rest.read(2 * WINDOW_BYTES)) == WINDOW_BYTES, "no further than it was asked about"
    assert rest.is_cold()
    rest.warm_up()
    assert not rest.is_cold()
    assert len(rest.read(2 * WINDOW_BYTES)) == WINDOW_BYTES


def test_a_window_that_is_cold_at_its_end_is_cold(cold_file: BufferedReader) -> None:
    os.pread(cold_file.fileno(), 1, 0)
    assert FileRange(Region(cold_file, 0, WINDOW_BYTES)).is_cold()


def test_a_window_that_was_warmed_up_is_not_asked_about_again(cold_file: BufferedReader) -> None:
    """Else a machine short of memory would read it again and again, and never send."""
    rest = FileRange(Region(cold_file, 0, WINDOW_BYTES))
    rest.warm_up()
    os.posix_fadvise(cold_file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert not rest.is_cold()


def test_warming_up_beyond_the_end_of_a_file_ends(file: BufferedReader) -> None:
    rest = FileRange(Region(file, 200, 1000))
    rest.warm_up()
    assert not rest.is_cold()


def test_where_the_system_cannot_tell_nothing_is_cold(
    cold_file: BufferedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.file_range._NO_WAIT", 0)
    assert not FileRange(Region(cold_file, 0, 100)).is_cold()


def test_trouble_with_asking_is_left_to_the_read(tmp_path: Path) -> None:
    opened = (tmp_path / "closed").open("wb+")
    descriptor = os.dup(opened.fileno())
    opened.close()
    os.close(descriptor)

    class Closed:
        def fileno(self) -> int:
            return descriptor

    @dataclass
    class Lost:
        file: Closed
        position: int
        size_bytes: int

    rest = FileRange(Lost(Closed(), 0, 100))
    assert not rest.is_cold()
    with pytest.raises(OSError, match="Bad file descriptor"):
        rest.read(100)
