"""Recovery after a power failure during writes to the log.

At each byte of the last batches the file is truncated, filled with zeros, or gets one flipped bit;
then the log is recovered. The model is a direct implementation of the rule: keep everything up to
the first byte that does not begin a valid batch.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.compression import Codec
from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.log.log import Log
from tests.unit.storage.logs import (
    NOW_MS,
    Batch,
    append,
    check_files,
    offsets_in,
    open_log,
    read_all,
    split,
)

# Indexes just large enough: each round copies the extended ones of the active segment.
CONFIG = LogConfig(segment_bytes=1_200, index_interval_bytes=150, segment_index_bytes=4_096)
TORN_BATCHES = 3

Damage = Callable[[bytes, int], bytes]


def cut(data: bytes, position: int) -> bytes:
    return data[:position]


def zeros(data: bytes, position: int) -> bytes:
    """Return the content after the file system extended a file, before it wrote the data."""
    return data[:position] + bytes(len(data) - position)


def flipped(data: bytes, position: int) -> bytes:
    bit = 1 << (position * 7) % 8
    return data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disable syncs and log events, which only take time: the damage is made by hand."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda _descriptor: None)
    with capture_logs():
        yield


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of several segments after a crash: nothing was closed or flushed."""
    directory = tmp_path_factory.mktemp("origin") / "orders-0"
    log = open_log(directory, CONFIG)
    for number in range(30):
        codec = list(Codec)[number % 5]
        append(log, [NOW_MS + number % 7, NOW_MS - number], epoch=number // 8, codec=codec)
    assert len(log.segments) > 2
    return directory


def expected_batches(directory: Path) -> list[Batch]:
    """Return all batches that recovery may keep, segment by segment."""
    kept: list[Batch] = []
    paths = sorted(directory.glob("*.log"))
    for path, after in zip(paths, [*paths[1:], None], strict=True):
        data = path.read_bytes()
        limit = int(after.stem) if after else 2**63
        batches = split(data, int(path.stem))
        good = []
        for batch in batches:
            if batch.last_offset >= min(limit, int(path.stem) + 2**31):
                break
            good.append(batch)
        kept += good
        if sum(len(batch.data) for batch in good) < len(data):
            break
    return kept


def recover_and_check(origin: Path, target: Path, log_file: str, data: bytes) -> None:
    shutil.copytree(origin, target)
    (target / log_file).write_bytes(data)
    expected = expected_batches(target)
    log = open_log(target, CONFIG, was_clean=False)
    end = expected[-1].next_offset if expected else 0
    assert log.log_end_offset == end
    assert read_all(log) == b"".join(batch.data for batch in expected)
    check_epochs(log, expected)
    check_times(log, expected)
    assert append(log).base_offset == end
    log.upkeep.close()
    check_files(target, CONFIG.index_interval_bytes)
    shutil.rmtree(target)


def check_epochs(log: Log, batches: list[Batch]) -> None:
    latest = -1
    for batch in batches:
        # A decreasing epoch is damage that no checksum covers; only increasing ones count.
        latest = max(latest, batch.epoch)
        assert log.leader_epochs.epoch_for(Offset(batch.base_offset)) == latest
    assert log.leader_epochs.latest == latest


def check_times(log: Log, batches: list[Batch]) -> None:
    for timestamp_ms in (NOW_MS - 30, NOW_MS + 3, NOW_MS + 6):
        found = log.offset_for_timestamp(timestamp_ms, log.log_end_offset)
        holders = [batch for batch in batches if batch.max_timestamp_ms >= timestamp_ms]
        if not holders:
            assert found is None
        else:
            assert found is not None
            assert holders[0].base_offset <= found.offset <= holders[0].last_offset


@pytest.mark.parametrize("damage", [cut, zeros, flipped])
def test_the_end_of_the_log_torn_at_every_byte(
    origin: Path, tmp_path: Path, damage: Damage
) -> None:
    path = max(origin.glob("*.log"))
    data = path.read_bytes()
    first = split(data)[-TORN_BATCHES].position
    for position in range(first, len(data)):
        recover_and_check(origin, tmp_path / "orders-0", path.name, damage(data, position))


@pytest.mark.parametrize("damage", [cut, zeros, flipped])
def test_segments_behind_a_torn_one_are_dropped(
    origin: Path, tmp_path: Path, damage: Damage
) -> None:
    path = sorted(origin.glob("*.log"))[1]
    data = path.read_bytes()
    dice = random.Random(5)
    for position in dice.sample(range(len(data)), 60):
        recover_and_check(origin, tmp_path / "orders-0", path.name, damage(data, position))


@pytest.mark.parametrize("junk", [b"\x00", b"\xff" * 61, b"torn" * 100, bytes(3 * 1024 * 1024)])
def test_bytes_behind_the_last_batch_are_cut(origin: Path, tmp_path: Path, junk: bytes) -> None:
    path = max(origin.glob("*.log"))
    recover_and_check(origin, tmp_path / "orders-0", path.name, path.read_bytes() + junk)


def test_a_good_batch_behind_a_bad_one_is_not_resurrected(origin: Path, tmp_path: Path) -> None:
    path = max(origin.glob("*.log"))
    data = path.read_bytes()
    batches = split(data)
    damaged = flipped(data, batches[-2].position + 70)
    assert split(damaged)[-1].base_offset == batches[-3].base_offset
    recover_and_check(origin, tmp_path / "orders-0", path.name, damaged)


def test_a_batch_larger_than_one_read_is_recovered(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    config = LogConfig()
    log = open_log(directory, config)
    for size in (10, 3_000_000, 10, 1_048_000, 600, 2_000_000):
        append(log, value_bytes=size)
    log = open_log(directory, config, was_clean=False)
    assert offsets_in(read_all(log)) == list(range(6))
    path = directory / f"{0:020d}.log"
    os.truncate(path, path.stat().st_size - 1)
    log = open_log(directory, config, was_clean=False)
    assert log.log_end_offset == 5


def test_flushed_prefix_survives_the_loss_of_all_unsynced_bytes(tmp_path: Path) -> None:
    """Files are truncated or zeroed above their synced size; the flushed prefix is unchanged."""
    dice = random.Random(8)
    for number in range(25):
        directory = tmp_path / f"orders-{number}"
        log = open_log(directory, CONFIG)
        for _ in range(dice.randrange(30)):
            append(log, [NOW_MS] * dice.randrange(1, 4))
        log.upkeep.flush()
        durable = {path.name: path.stat().st_size for path in directory.glob("*.log")}
        flushed, recovery_point = read_all(log), log.recovery_point
        for _ in range(dice.randrange(30)):
            append(log, [NOW_MS] * dice.randrange(1, 4))
        del log
        lose_unsynced(directory, durable, dice)
        log = open_log(directory, CONFIG, was_clean=False, recovery_point=recovery_point)
        assert log.log_end_offset >= recovery_point
        assert read_all(log).startswith(flushed)
        log.upkeep.close()
        check_files(directory, CONFIG.index_interval_bytes)


def lose_unsynced(directory: Path, durable: dict[str, int], dice: random.Random) -> None:
    for path in directory.glob("*.log"):
        keep = durable.get(path.name, 0)
        data = path.read_bytes()
        torn = dice.randrange(keep, len(data) + 1)
        path.write_bytes(dice.choice([cut, zeros])(data, torn))
    for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        if dice.random() < 0.3:
            path.write_bytes(bytes(path.stat().st_size))


def test_interrupted_recovery_can_be_repeated(origin: Path, tmp_path: Path) -> None:
    target = tmp_path / "orders-0"
    path = max(origin.glob("*.log"))
    data = path.read_bytes()
    torn = zeros(data, len(data) - 100)
    for step in range(1, 400, 3):
        shutil.copytree(origin, target)
        (target / path.name).write_bytes(torn)
        with pytest.MonkeyPatch.context() as patch:
            stop_after(step, patch)
            try:
                open_log(target, CONFIG, was_clean=False)
                finished = True
            except Stopped:
                finished = False
        expected = expected_batches(target)
        log = open_log(target, CONFIG, was_clean=False)
        assert read_all(log) == b"".join(batch.data for batch in expected)
        assert log.log_end_offset == Offset(expected[-1].next_offset)
        log.upkeep.close()
        check_files(target, CONFIG.index_interval_bytes)
        shutil.rmtree(target)
        if finished:
            return
    raise AssertionError("the recovery never completed")


class Stopped(BaseException):
    """The simulated process is stopped."""


def stop_after(step: int, patch: pytest.MonkeyPatch) -> None:
    """Stop at call number `step` that changes a file."""
    left = step

    def stopping(real: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: object) -> int:
            nonlocal left
            left -= 1
            if left < 0:
                raise Stopped
            return real(*arguments)

        return call

    for name in ("pwrite", "ftruncate"):
        patch.setattr(os, name, stopping(getattr(os, name)))
