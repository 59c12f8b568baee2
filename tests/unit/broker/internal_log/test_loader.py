"""Loading a partition of an internal topic while leaderships change."""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.groups.group import Group
from broker.groups.rebalance import GroupLimits
from broker.groups.replay import OffsetsReplay
from broker.internal_log import loader
from broker.internal_log.loader import Loader
from kafkawire.group_records import CommittedOffset, offset_key, offset_value
from kafkawire.ids import LeaderEpoch, TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from kafkawire.records import BatchBuilder
from storage.config.log_config import LogConfig
from storage.disk.layout import DirectoryState
from storage.segment.log_file import FileRegion
from tests.unit.broker import replicas
from tests.unit.broker.replicas import NOW_MS, World
from tests.unit.storage.logs import open_log
from tests.waiting import until

KEY = TopicPartition(OFFSETS_TOPIC, 0)
T0 = TopicPartition("t", 0)
E0 = LeaderEpoch(0)
LIMITS = GroupLimits(max_size=10, initial_rebalance_delay_ms=0)
COMMITS = 300


class Loading:
    """A loader and its loaded groups; a test may clear `is_wanted`."""

    def __init__(self, world: World, executor: ThreadPoolExecutor, buffer_bytes: int) -> None:
        self.is_wanted = True
        self.loaded: list[tuple[int, list[Group]]] = []
        self.done = asyncio.Event()
        self.loader = Loader(
            world.replicas,
            OFFSETS_TOPIC,
            subject="group",
            make_replay=OffsetsReplay,
            loop=asyncio.get_running_loop(),
            executor=executor,
            buffer_bytes=buffer_bytes,
            is_wanted=lambda _partition, _epoch: self.is_wanted,
            on_loaded=self._on_loaded,
        )

    def _on_loaded(self, partition: int, replay: OffsetsReplay) -> int:
        groups = replay.groups(LIMITS, 0)
        self.loaded.append((partition, groups))
        self.done.set()
        return len(groups)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(replicas, "PARTITION", KEY)
    return World(tmp_path)


def commit(world: World, offset: int) -> None:
    builder = BatchBuilder()
    value = offset_value(CommittedOffset(offset, 0, "", NOW_MS))
    builder.append(NOW_MS, offset_key("g", T0), value)
    world.replicas.append(KEY, memoryview(builder.build()), -1, NOW_MS)


async def test_empty_partition_is_loaded_at_once(world: World) -> None:
    with ThreadPoolExecutor(1) as executor:
        loading = Loading(world, executor, 1 << 20)
        loading.loader.put(0, E0)
        assert loading.loaded == [(0, [])]
        await loading.loader.stop()


@pytest.mark.parametrize("buffer_bytes", [1, 1000, 1 << 20])
async def test_partition_is_loaded_to_its_end(world: World, buffer_bytes: int) -> None:
    for offset in range(COMMITS):
        commit(world, offset)
    with ThreadPoolExecutor(1) as executor:
        loading = Loading(world, executor, buffer_bytes)
        loading.loader.put(0, E0)
        assert loading.loaded == [], "the load does not run in the caller's turn"
        await asyncio.wait_for(loading.done.wait(), 20)
        [(partition, [group])] = loading.loaded
        held = group.offsets.get(T0)
        assert (partition, group.group_id, held and held.offset) == (0, "g", COMMITS - 1)
        await loading.loader.stop()


async def test_load_continues_in_the_copy_that_replaces_the_log(
    world: World, tmp_path: Path
) -> None:
    world.log.update_config(LogConfig(segment_bytes=1_000))
    for offset in range(COMMITS):
        commit(world, offset)
    directory = tmp_path / "two" / world.log.directory.name
    shutil.copytree(world.log.directory, directory)
    moved = open_log(directory, was_clean=False)

    def end_move_and_want(_partition: int, _epoch: LeaderEpoch) -> bool:
        if world.replica.log is world.log:
            world.log.upkeep.release_closed()
            world.log.upkeep.set_aside(DirectoryState.DELETED)
            world.replica.log = moved
        return True

    with ThreadPoolExecutor(1) as executor:
        loading = Loading(world, executor, 1)
        loading.loader._is_wanted = end_move_and_want
        loading.loader.put(0, E0)
        await asyncio.wait_for(loading.done.wait(), 20)
        [(_, [group])] = loading.loaded
        held = group.offsets.get(T0)
        assert held is not None
        assert held.offset == COMMITS - 1
        assert world.log.health.failure is None
        await loading.loader.stop()


async def test_unwanted_load_ends_without_result(world: World) -> None:
    commit(world, 1)
    with ThreadPoolExecutor(1) as executor:
        loading = Loading(world, executor, 1)
        loading.loader.put(0, E0)
        loading.is_wanted = False
        for _ in range(100):
            await asyncio.sleep(0)
        await loading.loader.stop()
        assert loading.loaded == []


async def test_partition_that_is_led_elsewhere_is_not_loaded(world: World) -> None:
    commit(world, 1)
    with ThreadPoolExecutor(1) as executor:
        loading = Loading(world, executor, 1)
        loading.loader.put(7, E0)
        loading.loader.put(0, E0)
        world.replicas.roles.remove(KEY)
        for _ in range(100):
            await asyncio.sleep(0)
        await loading.loader.stop()
        assert loading.loaded == []


async def test_failed_load_is_retried_and_does_not_delay_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(world, 1)
    monkeypatch.setattr(loader, "RETRY_DELAY_S", 0.0)
    outcomes = iter(["fail", "fail", "load", "load"])

    groups = OffsetsReplay.groups

    def fail_at_first(replay: OffsetsReplay, limits: GroupLimits, now_ms: int) -> list[Group]:
        assert next(outcomes) == "load", "an unforeseen record"
        return groups(replay, limits, now_ms)

    monkeypatch.setattr(OffsetsReplay, "groups", fail_at_first)
    with ThreadPoolExecutor(1) as executor, capture_logs() as lines:
        loading = Loading(world, executor, 1 << 20)
        loading.loader.put(0, E0)
        loading.loader.put(0, E0)
        await asyncio.wait_for(loading.done.wait(), 20)
        await loading.loader.stop()
    assert loading.loaded[0][0] == 0
    errors = [line["event"] for line in lines if line["log_level"] == "error"]
    assert errors == ["groups.load_failed", "groups.not_loaded"] * 2


async def test_failed_load_is_not_retried_once_unwanted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "RETRY_DELAY_S", 0.0)
    with ThreadPoolExecutor(1) as executor, capture_logs() as lines:
        loading = Loading(world, executor, 1)
        loading.loader.put(7, E0)
        loading.is_wanted = False
        for _ in range(10):
            await asyncio.sleep(0)
        await loading.loader.stop()
    assert [line["event"] for line in lines] == ["groups.not_loaded"]
    assert loading.loaded == []


async def test_truncated_batch_fails_the_load(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(world, 1)
    monkeypatch.setattr(FileRegion, "read", lambda _region: b"\0" * 5)
    with ThreadPoolExecutor(1) as executor, capture_logs() as lines:
        loading = Loading(world, executor, 1)
        loading.loader.put(0, E0)
        await until(lambda: bool(lines), "an error")
        await loading.loader.stop()
    assert "is truncated" in lines[0]["error"]
