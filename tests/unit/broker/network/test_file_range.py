"""The bytes of a region are sent once, in order, and never fewer than promised."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import pytest

from broker.network.file_range import (
    ONE_PROBE_BYTES,
    WINDOW_BYTES,
    FileRange,
    TruncatedRegionError,
)
from tests.stand_ins import takes_stand_in


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


def test_a_region_is_read_in_pieces(file: BufferedReader) -> None:
    rest = FileRange(Region(file, 10, 100))
    assert rest.read(60) == bytes(range(10, 70))
    assert rest.bytes_left == 40
    assert rest.read(60) == bytes(range(70, 110))
    assert rest.bytes_left == 0
    assert rest.read(60) == b""


def test_an_empty_region_has_no_bytes(file: BufferedReader) -> None:
    assert FileRange(Region(file, 300, 0)).read(10) == b""


def test_a_region_is_sent_in_pieces(file: BufferedReader) -> None:
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
        message = "the file ends at 256, 44 of 100 promised bytes are missing"
        with pytest.raises(TruncatedRegionError, match=message):
            reading.read(1000)
        with pytest.raises(TruncatedRegionError, match=message):
            sending.send(ours.fileno(), 1000)
        assert len(theirs.recv(1000)) == 56


def test_a_deleted_file_is_read_to_the_end(file: BufferedReader) -> None:
    rest = FileRange(Region(file, 0, 256))
    os.unlink(file.name)  # noqa: PTH108
    assert rest.read(256) == bytes(range(256))


def test_a_full_socket_raises_an_error(file: BufferedReader) -> None:
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
def long_file(tmp_path: Path) -> Iterator[BufferedReader]:
    path = tmp_path / "long"
    path.write_bytes(bytes(2 * WINDOW_BYTES))
    with path.open("rb") as opened:
        yield opened


class ColdRange(FileRange):
    """Of the file, only the bytes at the positions in `cached` are in memory."""

    cached: frozenset[int] = frozenset()

    def _is_missing(self, position: int) -> bool:
        return position not in self.cached


def test_bytes_just_written_are_not_cold(file: BufferedReader) -> None:
    assert not FileRange(Region(file, 0, 256)).is_cold()


DROPS = 20


def test_bytes_dropped_by_the_system_are_cold(long_file: BufferedReader) -> None:
    os.fsync(long_file.fileno())
    for _ in range(DROPS):
        os.posix_fadvise(long_file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if FileRange(Region(long_file, 0, 100)).is_cold():
            return
        # The system may ignore the advice to drop pages; pages not dropped by now will stay.
        try:
            os.preadv(long_file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            pytest.fail("the system tells that it is not in memory, and the range does not")
        except OSError:
            break
    pytest.skip("this system does not drop it, or does not tell what is in memory")


@takes_stand_in
def test_an_empty_region_is_never_cold(long_file: BufferedReader) -> None:
    assert not ColdRange(Region(long_file, 0, 0)).is_cold()


@takes_stand_in
def test_a_cold_region_is_warmed_up_window_by_window(long_file: BufferedReader) -> None:
    rest = ColdRange(Region(long_file, 0, 2 * WINDOW_BYTES))
    for _ in range(2):
        assert rest.is_cold()
        rest.warm_up()
        assert not rest.is_cold()
        assert len(rest.read(WINDOW_BYTES - 10)) == WINDOW_BYTES - 10
        assert not rest.is_cold(), "it was asked about already"
        assert len(rest.read(WINDOW_BYTES)) == 10, "no further than it was asked about"
    assert rest.bytes_left == 0


@takes_stand_in
@pytest.mark.parametrize(
    ("size_bytes", "cached", "is_cold"),
    [
        pytest.param(WINDOW_BYTES, {0, WINDOW_BYTES - 1}, False, id="both ends in memory"),
        pytest.param(WINDOW_BYTES, {0}, True, id="end missing"),
        pytest.param(WINDOW_BYTES, {WINDOW_BYTES - 1}, True, id="start missing"),
        pytest.param(ONE_PROBE_BYTES, {0}, False, id="short: the start is enough"),
        pytest.param(ONE_PROBE_BYTES + 1, {0}, True, id="longer: it is not"),
    ],
)
def test_a_window_is_cold_if_one_of_its_ends_is(
    size_bytes: int, cached: set[int], is_cold: bool, long_file: BufferedReader
) -> None:
    rest = ColdRange(Region(long_file, 0, size_bytes))
    rest.cached = frozenset(cached)
    assert rest.is_cold() == is_cold


@takes_stand_in
def test_a_warmed_up_window_is_not_probed_again(long_file: BufferedReader) -> None:
    """Otherwise a machine short of memory would read it repeatedly, and never send it."""
    rest = ColdRange(Region(long_file, 0, WINDOW_BYTES))
    rest.warm_up()
    assert not rest.is_cold()


def test_warming_up_beyond_the_end_of_a_file_ends(file: BufferedReader) -> None:
    rest = FileRange(Region(file, 200, 1000))
    rest.warm_up()
    assert not rest.is_cold()


@takes_stand_in
def test_nothing_is_cold_on_a_system_without_probes(
    file: BufferedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.network.file_range._NO_WAIT", 0)
    monkeypatch.delattr(os, "preadv")
    assert not FileRange(Region(file, 0, 100)).is_cold()


def test_errors_of_a_probe_are_left_to_the_read(tmp_path: Path) -> None:
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
