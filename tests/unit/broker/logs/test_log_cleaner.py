"""Cleaners and their child processes, with fake processes: `broker.logs.log_cleaner`."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.config.broker_config import BrokerConfig
from broker.config.log_keys import LogKeys
from broker.logs.log_cleaner import LogCleaner, cleaner_settings
from kafkawire.ids import Offset, TopicPartition
from kafkawire.records import ControlType
from storage.compaction.cleaner import Cleaner
from storage.compaction.job import CleaningFailed, CleaningJob, Report
from storage.compaction.manager import CleanerManager
from storage.config.log_config import DELETE
from storage.disk.checkpoint import read_offsets
from storage.errors import LogDirOfflineError, OutOfFilesError
from storage.log.log import Log
from tests.unit.storage.compacting import (
    COMPACTED,
    SEED,
    append_batch,
    keyed_batch,
    put,
    records_of,
)
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import NOW_MS, PARTITION, open_logs
from tests.unit.storage.produced_batches import marker, write

OTHER = TopicPartition("other", 0)


class FakeProcess:
    """A process that does its job in the test's process; `gate` may change or end its reports."""

    def __init__(self, job: CleaningJob, gate: Callable[[Report], "Report | None"]) -> None:
        self.job = job
        self.is_killed = False
        self._gate = gate

    async def reports(self) -> AsyncIterator[Report]:
        for report in Cleaner(self.job, seed=SEED).clean():
            passed = self._gate(report)
            if passed is None or self.is_killed:
                return
            yield passed

    def kill(self) -> None:
        self.is_killed = True

    async def wait(self) -> None:
        return None


class Rig:
    """A cleaner over two dirty logs."""

    def __init__(self, directory: Path) -> None:
        self.logs = open_logs(directory, config=COMPACTED)
        self.processes: list[FakeProcess] = []
        self.retention_runs = 0
        self.gate: Callable[[Report], Report | None] = lambda report: report
        self.executor = ThreadPoolExecutor(1)
        self.directory = directory
        self.manager = CleanerManager(self.logs, cleaner_settings(LogKeys()), self.log_end_offset)
        properties = {"log.cleaner.backoff.ms": "1"}
        self.cleaner = LogCleaner(
            logs=self.logs,
            manager=self.manager,
            config=BrokerConfig.from_properties(properties).logs,
            loop=asyncio.get_running_loop(),
            executor=self.executor,
            now_ms=lambda: NOW_MS,
            start_process=self.start_process,
            delete_expired=self.delete_expired,
        )

    def log_end_offset(self, partition: TopicPartition) -> Offset | None:
        local = self.logs.get(partition)
        return None if local is None else local.log_end_offset

    def make_dirty(self, partition: TopicPartition, batch_count: int = 20) -> None:
        log = self.logs.create(partition, COMPACTED, None, now_ms=NOW_MS)
        for number in range(batch_count):
            put(log, (b"a", b"%d" % number))
        log.upkeep.roll(NOW_MS)

    async def start_process(self, job: CleaningJob) -> FakeProcess:
        self.processes.append(FakeProcess(job, self.gate))
        return self.processes[-1]

    async def delete_expired(self) -> None:
        self.retention_runs += 1

    def hold_first_swap(self, log: Log) -> asyncio.Event:
        """Let the first swap wait until it is cancelled; return the event of its wait."""
        in_swap, real = asyncio.Event(), self.cleaner._in_thread

        async def in_thread(work: Callable[[], None]) -> None:
            if work == log.upkeep.sync_names and not in_swap.is_set():
                in_swap.set()
                await asyncio.Event().wait()
            await real(work)

        self.cleaner._in_thread = in_thread  # type: ignore[method-assign]
        return in_swap

    async def run_until(self, condition: Callable[[], bool]) -> None:
        """Run the cleaner until `condition` holds, then stop it."""
        self.cleaner.start()
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - depends on threads and files
                await asyncio.sleep(0)
        await self.cleaner.stop()

    def offsets(self, partition: TopicPartition = PARTITION) -> list[int]:
        log = self.logs.get(partition)
        assert log is not None
        return [record.offset for record in records_of(log)]

    def leftovers(self) -> list[str]:
        return [
            path.name for path in self.directory.rglob("*") if path.suffix in (".cleaned", ".swap")
        ]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.logs.close()
    made.executor.shutdown()


def checkpoint(rig: Rig) -> dict[TopicPartition, Offset]:
    try:
        return read_offsets(rig.directory / "cleaner-offset-checkpoint")
    except FileNotFoundError:
        return {}


async def test_every_dirty_log_is_cleaned_and_checkpointed(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    rig.make_dirty(OTHER)
    await rig.run_until(lambda: rig.cleaner.metrics.round_count == 2 and rig.retention_runs > 2)
    assert rig.offsets() == rig.offsets(OTHER) == [19]
    assert checkpoint(rig) == {PARTITION: 20, OTHER: 20}
    gauges = {name: read() for name, read in rig.cleaner.metrics.gauges().items()}
    assert gauges["cleaner_rounds"] == 2
    assert 0 < gauges["cleaner_recopy_percent"] < 20
    assert rig.leftovers() == []


async def test_process_that_dies_changes_nothing_and_is_retried(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    rig.gate = lambda _: None if len(rig.processes) == 1 else _
    await rig.run_until(lambda: rig.cleaner.metrics.round_count == 1)
    assert rig.cleaner.metrics.failure_count == 1
    assert rig.offsets() == [19]
    assert rig.leftovers() == []


async def test_damaged_log_is_skipped_and_others_are_cleaned(rig: Rig) -> None:
    rig.make_dirty(PARTITION, batch_count=30)
    rig.make_dirty(OTHER)
    damaged = CleaningFailed(error="a flipped bit", is_damage=True)
    rig.gate = lambda report: damaged if "orders" in rig.processes[-1].job.directory else report
    await rig.run_until(lambda: rig.cleaner.metrics.round_count == 1 and rig.retention_runs > 3)
    assert rig.manager.uncleanable == [PARTITION]
    assert rig.offsets() == list(range(30))
    assert rig.offsets(OTHER) == [19]
    # A recreated log is another one.
    rig.logs.delete(PARTITION)
    assert rig.manager.uncleanable == []


async def test_truncation_discards_a_running_cleaning(rig: Rig) -> None:
    rig.make_dirty(PARTITION)

    def truncate(report: Report) -> Report:
        if len(rig.processes) == 1:
            rig.logs.truncate_to({PARTITION: Offset(5)})
        return report

    rig.gate = truncate
    await rig.run_until(lambda: rig.retention_runs > 0 and not rig.leftovers())
    assert rig.processes[0].is_killed
    assert rig.offsets() == list(range(5))
    assert checkpoint(rig) == {}


async def test_truncation_of_the_active_segment_is_not_taken_for_damage(rig: Rig) -> None:
    """A cleaner reads that segment, too: on to the markers of transactions."""
    log = rig.logs.create(PARTITION, COMPACTED, None, now_ms=NOW_MS)
    put(log, (b"a", b"1"), (b"a", b"2"))
    pending = keyed_batch([(b"a", b"3")], producer=(7, 0, 0), is_transactional=True)
    append_batch(log, pending)
    log.upkeep.roll(NOW_MS)
    put(log, (b"b", b"1"))
    write(log, marker(7, 0, ControlType.COMMIT))
    put(log, (b"c", b"uncommitted"))
    real = rig.start_process

    async def start(job: CleaningJob) -> FakeProcess:
        if not rig.processes:
            rig.logs.truncate_to({PARTITION: Offset(5)})
        return await real(job)

    rig.cleaner._start_process = start
    await rig.run_until(lambda: rig.retention_runs > 1)
    assert rig.manager.uncleanable == []
    assert rig.offsets() == [2, 3]


async def test_a_process_whose_cleaning_was_aborted_during_its_start_is_killed(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    real = rig.start_process

    async def start(job: CleaningJob) -> FakeProcess:
        process = await real(job)
        if len(rig.processes) == 1:
            rig.logs.abort_cleaning(PARTITION)
        return process

    killed: list[bool] = []

    def note(report: Report) -> Report:
        killed.append(rig.processes[-1].is_killed)
        return report

    rig.cleaner._start_process = start
    rig.gate = note
    await rig.run_until(lambda: rig.cleaner.metrics.round_count == 1)
    assert killed[:2] == [True, False], "only the first one, before it did any work"
    assert rig.offsets() == [19]


async def test_deletion_of_a_log_discards_a_running_cleaning(rig: Rig) -> None:
    rig.make_dirty(PARTITION)

    def delete(report: Report) -> Report:
        rig.logs.delete(PARTITION)
        return report

    rig.gate = delete
    await rig.run_until(lambda: bool(rig.processes) and rig.processes[0].is_killed)
    assert rig.logs.get(PARTITION) is None


async def test_a_topic_that_is_no_longer_compacted_loses_no_records_to_a_running_cleaning(
    rig: Rig,
) -> None:
    rig.make_dirty(PARTITION)

    def revert(report: Report) -> Report:
        log = rig.logs.get(PARTITION)
        assert log is not None
        log.update_config(replace(COMPACTED, cleanup_policy=frozenset({DELETE})))
        return report

    rig.gate = revert
    await rig.run_until(lambda: bool(rig.processes) and rig.retention_runs > 1)
    assert rig.offsets() == list(range(20))
    assert checkpoint(rig) == {}
    assert rig.cleaner.metrics.failure_count == 0
    assert rig.leftovers() == []


async def test_a_swap_is_cancelled_if_the_topic_is_no_longer_compacted(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    log = rig.logs.get(PARTITION)
    assert log is not None
    real = rig.cleaner._in_thread

    async def in_thread(work: Callable[[], None]) -> None:
        await real(work)
        if work == log.upkeep.sync_names:
            log.update_config(replace(COMPACTED, cleanup_policy=frozenset({DELETE})))

    rig.cleaner._in_thread = in_thread  # type: ignore[method-assign]
    await rig.run_until(lambda: bool(rig.processes) and rig.retention_runs > 1)
    assert rig.offsets() == list(range(20))
    assert checkpoint(rig) == {}
    assert rig.leftovers() == []


async def test_segments_deleted_by_retention_are_not_replaced(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.make_dirty(PARTITION, batch_count=60)
    failed: list[TopicPartition] = []
    monkeypatch.setattr(rig.manager, "note_failure", lambda partition, _: failed.append(partition))

    def expire(report: Report) -> Report:
        if len(rig.processes) == 1:
            log = rig.logs.get(PARTITION)
            assert log is not None
            log.advance_log_start(log.segments[1].base_offset)
        return report

    rig.gate = expire
    await rig.run_until(lambda: rig.cleaner.metrics.round_count == 1)
    assert rig.cleaner.metrics.failure_count == 1
    assert failed == [], "the log keeps its turn"
    assert rig.offsets() == [59]
    assert rig.leftovers() == []


async def test_stop_kills_the_process_and_keeps_the_log_intact(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    stopping = asyncio.Event()

    async def never(job: CleaningJob) -> FakeProcess:
        process = await rig.start_process(job)
        stopping.set()
        return process

    rig.cleaner._start_process = never
    await rig.run_until(stopping.is_set)
    assert all(process.is_killed for process in rig.processes)
    assert rig.logs.cleaning is rig.manager


async def test_disabled_cleaner_cleans_nothing(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    rig.cleaner._config = LogKeys(log_cleaner_enable=False)
    rig.cleaner.start()
    await rig.cleaner.stop()
    assert rig.offsets() == list(range(20))
    assert rig.processes == []


async def test_failed_process_start_is_retried(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    failures = 0

    async def start(job: CleaningJob) -> FakeProcess:
        nonlocal failures
        if failures < 2:
            failures += 1
            raise OSError("no process for you")
        return await rig.start_process(job)

    rig.cleaner._start_process = start
    await rig.run_until(lambda: rig.cleaner.metrics.round_count == 1)
    assert rig.cleaner.metrics.failure_count == 2
    assert rig.offsets() == [19]


async def test_a_log_whose_cleaning_keeps_failing_holds_up_no_other(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    rig.make_dirty(OTHER)
    rig.gate = lambda report: None if "orders" in rig.processes[-1].job.directory else report
    await rig.run_until(
        lambda: rig.cleaner.metrics.round_count == 1 and rig.cleaner.metrics.failure_count > 2
    )
    assert rig.offsets() == list(range(20))
    assert rig.offsets(OTHER) == [19]


async def test_a_log_that_cannot_be_prepared_for_a_cleaning_holds_up_no_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.make_dirty(PARTITION)
    rig.make_dirty(OTHER)
    log = rig.logs.get(PARTITION)
    assert log is not None

    def fail() -> None:
        raise OutOfFilesError(log.directory, "too many open files")

    monkeypatch.setattr(log.upkeep, "prepare_cleaning", fail)
    await rig.run_until(lambda: rig.cleaner.metrics.round_count == 1)
    assert rig.offsets(OTHER) == [19]


async def test_cleaner_that_dies_of_a_bug_is_counted(rig: Rig) -> None:
    rig.make_dirty(PARTITION)

    async def start(_: CleaningJob) -> FakeProcess:
        raise AssertionError("a bug")

    rig.cleaner._start_process = start
    with capture_logs() as logs:
        await rig.run_until(lambda: rig.cleaner.metrics.dead_thread_count == 1)
    assert [each["error"] for each in logs if each["event"] == "cleaner.died"] == [
        "AssertionError('a bug')"
    ]
    # The cleaner has released the log.
    assert rig.manager.candidate(next(iter(rig.logs)), NOW_MS) is not None


async def test_log_with_unreadable_timestamps_is_uncleanable(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    log = rig.logs.get(PARTITION)
    assert log is not None
    log.update_config(replace(COMPACTED, max_compaction_lag_ms=1))
    first = log.segments[0]
    path = log.directory / "00000000000000000000.log"
    path.write_bytes(bytes(path.stat().st_size))
    first._first_timestamp_ms = None
    await rig.run_until(lambda: rig.manager.uncleanable == [PARTITION])
    assert rig.processes == []


async def test_log_whose_files_cannot_be_opened_does_not_stop_the_cleaner(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    rig.make_dirty(OTHER)
    log = rig.logs.get(PARTITION)
    assert log is not None
    log.update_config(replace(COMPACTED, max_compaction_lag_ms=1))
    for segment in log.segments[:-1]:
        segment.release()
        segment._first_timestamp_ms = None
    with failing("open", errno.EMFILE, at=lambda path: path.parent == log.directory):
        await rig.run_until(lambda: rig.cleaner.metrics.round_count == 1 and rig.retention_runs > 2)
    assert rig.offsets(OTHER) == [19]
    assert rig.cleaner.metrics.dead_thread_count == 0


async def test_disk_that_keeps_the_files_of_a_failed_cleaning_does_not_stop_the_cleaner(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.make_dirty(PARTITION)
    rig.gate = lambda _: None

    def refuse(_directory: Path) -> None:
        if rig.processes:
            raise OSError(errno.EROFS, "read-only file system")

    monkeypatch.setattr("broker.logs.log_cleaner.remove_all_cleaned", refuse)
    await rig.run_until(lambda: rig.retention_runs > 2)
    assert rig.cleaner.metrics.dead_thread_count == 0
    assert rig.cleaner.metrics.failure_count == 1
    assert rig.logs.table.offline_paths == (rig.directory,)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def config_of(**settings: str) -> LogKeys:
    properties = {"log.cleaner.backoff.ms": "1"}
    properties |= {name.replace("_", "."): text for name, text in settings.items()}
    return BrokerConfig.from_properties(properties).logs


async def test_new_configuration_applies_to_the_next_cleaning(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    rig.cleaner.start()
    await rig.cleaner.reconfigure(
        config_of(
            log_cleaner_threads="2",
            log_cleaner_dedupe_buffer_size="4800000",
            log_cleaner_io_buffer_size="40000",
            log_cleaner_io_max_bytes_per_second="7000",
            log_dir_reserve_bytes="2000000",
        )
    )
    assert len(rig.cleaner._tasks) == 2
    async with asyncio.timeout(20):
        while rig.cleaner.metrics.round_count == 0:  # noqa: ASYNC110 - depends on threads
            await asyncio.sleep(0)
    await rig.cleaner.stop()
    job = rig.processes[-1].job
    assert (job.dedupe_buffer_bytes, job.io_buffer_bytes) == (2_400_000, 10_000)
    assert job.max_bytes_per_second == 3_500
    assert job.least_free_bytes == 2_000_000
    assert rig.offsets() == [19]


async def test_running_cleaning_starts_over_with_the_new_configuration(rig: Rig) -> None:
    rig.make_dirty(PARTITION, batch_count=60)
    begun = asyncio.Event()
    real = rig.start_process

    async def start(job: CleaningJob) -> FakeProcess:
        process = await real(job)
        begun.set()
        if len(rig.processes) == 1:
            # The process is in the middle of its job when the configuration changes.
            (rig.directory / "orders-0" / f"{0:020d}.log.cleaned").write_bytes(b"half")
            await asyncio.Event().wait()
        return process

    rig.cleaner._start_process = start
    rig.cleaner.start()
    async with asyncio.timeout(20):
        await begun.wait()
        await rig.cleaner.reconfigure(config_of(log_cleaner_io_max_bytes_per_second="1e9"))
        while rig.cleaner.metrics.round_count == 0:  # noqa: ASYNC110 - depends on threads
            await asyncio.sleep(0)
    await rig.cleaner.stop()
    assert [process.job.max_bytes_per_second for process in rig.processes][-1] == 1e9
    assert rig.offsets() == [59]
    assert rig.leftovers() == []


@pytest.mark.parametrize("rate", ["0", "-1"])
async def test_cleaning_is_paused_until_its_rate_is_raised(rig: Rig, rate: str) -> None:
    rig.make_dirty(PARTITION)
    await rig.cleaner.reconfigure(config_of(log_cleaner_io_max_bytes_per_second=rate))
    await rig.run_until(lambda: rig.retention_runs > 2)
    assert (rig.processes, rig.manager.uncleanable) == ([], [])
    assert rig.cleaner.metrics.max_dirty_percent == 100
    await rig.cleaner.reconfigure(config_of(log_cleaner_io_max_bytes_per_second="1e9"))
    await rig.run_until(lambda: rig.cleaner.metrics.round_count == 1)
    assert rig.offsets() == [19]


async def test_reconfiguration_cancels_a_swap(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    log = rig.logs.get(PARTITION)
    assert log is not None
    in_swap = rig.hold_first_swap(log)
    rig.cleaner.start()
    async with asyncio.timeout(20):
        await in_swap.wait()
        assert rig.leftovers()
        await rig.cleaner.reconfigure(config_of(log_cleaner_threads="2"))
        while rig.cleaner.metrics.round_count == 0:  # noqa: ASYNC110 - depends on threads
            await asyncio.sleep(0)
    await rig.cleaner.stop()
    assert rig.offsets() == [19]
    assert rig.leftovers() == []


async def test_a_disk_that_fails_during_a_swap_does_not_keep_the_cleaner_from_its_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.make_dirty(PARTITION)
    log = rig.logs.get(PARTITION)
    assert log is not None
    in_swap = rig.hold_first_swap(log)

    def fail() -> None:
        raise LogDirOfflineError(rig.directory, "the disk has failed")

    monkeypatch.setattr(log.upkeep, "cancel_swap", fail)
    rig.cleaner.start()
    async with asyncio.timeout(20):
        await in_swap.wait()
        await rig.cleaner.stop()
    assert rig.cleaner.metrics.round_count == 0
    monkeypatch.undo()


async def test_other_keys_do_not_restart_the_cleaner(rig: Rig) -> None:
    rig.cleaner.start()
    tasks = list(rig.cleaner._tasks)
    await rig.cleaner.reconfigure(config_of(background_threads="3"))
    assert rig.cleaner._tasks == tasks
    await rig.cleaner.stop()


async def test_reconfiguration_does_not_start_a_stopped_cleaner(rig: Rig) -> None:
    rig.make_dirty(PARTITION)
    await rig.cleaner.reconfigure(config_of(log_cleaner_threads="2"))
    assert rig.cleaner._tasks == []
    rig.cleaner.start()
    assert len(rig.cleaner._tasks) == 2
    await asyncio.gather(
        rig.cleaner.reconfigure(config_of(log_cleaner_threads="4")), rig.cleaner.stop()
    )
    assert rig.cleaner._tasks == []
    await rig.cleaner.reconfigure(config_of(log_cleaner_threads="8"))
    await settle()
    assert rig.cleaner._tasks == []
    assert rig.processes == []


def test_cleaners_share_the_configured_resources() -> None:
    config = BrokerConfig.from_properties(
        {
            "log.cleaner.threads": "2",
            "log.cleaner.dedupe.buffer.size": "10000000",
            "log.cleaner.io.buffer.size": "400",
            "log.cleaner.io.max.bytes.per.second": "50",
        }
    )
    settings = cleaner_settings(config.logs)
    assert settings.dedupe_buffer_bytes == 5_000_000
    assert settings.io_buffer_bytes == 100
    assert settings.max_bytes_per_second == 25
    assert settings.load_factor == 0.9
