"""One thread appends, rolls, truncates and closes; another flushes and writes checkpoints."""

import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import Offset, TopicPartition
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.log.log import Log
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    append,
    check_files,
    open_logs,
    read_all,
    split,
)
from tests.waiting import until_sync

CONFIG = LogConfig(segment_bytes=4_000, index_interval_bytes=200)
STEPS = 1_500
ROUNDS = 5
"""Rounds of the other thread during the steps, at least."""


class Background:
    """A thread that calls functions in turn, and collects their exceptions."""

    def __init__(self, *calls: Callable[[], object]) -> None:
        self.errors: list[BaseException] = []
        self.rounds = 0
        self._calls = calls
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Background":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def has_run(self, rounds: int) -> bool:
        """Whether the thread has ended this number of rounds, or has failed."""
        return self.rounds >= rounds or bool(self.errors)

    def _run(self) -> None:
        while not self._stop.is_set():
            for call in self._calls:
                try:
                    call()
                except BaseException as error:
                    self.errors.append(error)
                    return
            self.rounds += 1


def step(logs: Logs, log: Log, dice: random.Random) -> None:
    match dice.randrange(30):
        case 0:
            log.upkeep.roll(NOW_MS)
        case 1:
            logs.truncate_to({PARTITION: Offset(max(0, log.log_end_offset - dice.randrange(60)))})
        case 2:
            log.advance_log_start(Offset((log.log_start_offset + log.log_end_offset) // 2))
        case 3:
            append(log, epoch=log.leader_epochs.latest + 1)
        case _:
            append(log, [NOW_MS] * dice.randint(1, 5), epoch=max(0, log.leader_epochs.latest))
    assert log.recovery_point <= log.log_end_offset


@pytest.mark.fresh_seeds(2)
def test_concurrent_flushes_do_not_disturb_the_log(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    logs = open_logs(tmp_path, config=CONFIG)
    log = logs.create(PARTITION, CONFIG, None, now_ms=NOW_MS)
    calls = (log.upkeep.flush, logs.checkpoints.write_bounds, lambda: logs.flush_due(NOW_MS))
    with capture_logs(), Background(*calls) as background:
        for rounds in range(ROUNDS):
            for _ in range(STEPS // ROUNDS):
                step(logs, log, dice)
            # A sync may take longer than all steps.
            until_sync(partial(background.has_run, rounds + 1), "the other thread")
    assert background.errors == []
    append(log, epoch=log.leader_epochs.latest + 1)
    log.upkeep.flush()
    assert log.recovery_point == log.log_end_offset
    stored = read_all(log)
    assert split(stored)[-1].next_offset == log.log_end_offset
    logs.close()
    check_files(log.directory)


def test_a_log_is_deleted_while_another_thread_flushes(tmp_path: Path) -> None:
    logs = open_logs(tmp_path, config=CONFIG)
    with capture_logs():
        with Background(
            lambda: logs.flush_due(NOW_MS), logs.checkpoints.write_bounds
        ) as background:
            for number in range(60):
                partition = TopicPartition("orders", number)
                log = logs.create(partition, CONFIG, None, now_ms=NOW_MS)
                for _ in range(60):
                    append(log)
                logs.delete(partition)
                logs.remove_deleted(NOW_MS, delay_ms=0)
        assert background.errors == []
        assert not logs.table.offline_paths
        logs.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_logs_are_closed_while_another_thread_flushes(tmp_path: Path) -> None:
    for number in range(10):
        path = tmp_path / str(number)
        logs = open_logs(path, config=CONFIG)
        with capture_logs():
            for partition in range(5):
                log = logs.create(TopicPartition("a", partition), CONFIG, None, now_ms=NOW_MS)
                for _ in range(100):
                    append(log)
            with Background(*(each.upkeep.flush for each in logs)) as background:
                logs.close()
        assert background.errors == []
        assert (path / ".kafka_cleanshutdown").exists()
