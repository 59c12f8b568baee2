"""Replaces everything that a process reaches outside its loop, such as clocks and locks."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

import coordination.client.client as coordination_client
import coordination.server.coordinator as coordinator
from broker.logs import broker_logs, cleaner_process
from coordination.client.heartbeat import Heartbeat
from coordination.server.disk.journal import FileLog
from coordination.server.disk.wal_writer import WalWriter
from kafkawire.exchange import Exchange
from ottla.client.producer import producer
from storage.directory import log_directory, opening
from tests.executors import InTurn
from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.process import PROCESS, Process, current_host

EPOCH_S: Final = 1_700_000_000
"""Wall-clock time at the loop's time 0."""


class AwaitedLog(FileLog):
    """The coordinator's log, which syncs in an executor of the loop."""

    def __init__(
        self,
        writer: WalWriter,
        loop: asyncio.AbstractEventLoop,
        *,
        on_rolled: Callable[[], None],
        does_sync: bool,
    ) -> None:
        assert does_sync
        super().__init__(writer, loop, on_rolled=on_rolled, does_sync=False)

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        self._loop.run_in_executor(None, self._sync).add_done_callback(
            lambda future: done(future.result())
        )

    def _sync(self) -> OSError | None:
        try:
            self.writer.sync()
        except OSError as error:
            return error
        return None

    def idle(self) -> None:
        self.writer.seal()


class Locks:
    """File locks, which end with their process."""

    def __init__(self) -> None:
        self._holders: dict[tuple[int, int], tuple[Process | None, int]] = {}

    def lock(self, descriptor: Any, operation: int, *_: object) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        stat = os.fstat(number)
        file, process = (stat.st_dev, stat.st_ino), PROCESS.get()
        if operation & fcntl.LOCK_UN:
            self._holders.pop(file, None)
            return
        holder = self._holders.get(file)
        if holder is not None and self._holds(file, *holder) and holder != (process, number):
            raise BlockingIOError(11, "locked")
        self._holders[file] = (process, number)

    def _holds(self, file: tuple[int, int], process: Process | None, number: int) -> bool:
        if process is not None and process.is_dead:
            return False
        try:
            stat = os.fstat(number)
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) == file


class Clock:
    """The wall clocks of the hosts."""

    def __init__(self, loop: WorldLoop) -> None:
        self._loop = loop
        self.offsets_s: dict[str, float] = {}

    def time(self) -> float:
        process = PROCESS.get()
        offset_s = 0.0 if process is None else self.offsets_s.get(process.host, 0.0)
        return EPOCH_S + self._loop.time() + offset_s

    def time_ns(self) -> int:
        return int(self.time() * 1e9)


@contextmanager
def replaced(loop: WorldLoop) -> Iterator[Clock]:
    """Give the processes of `loop` its time, its random numbers, and locks of their own."""
    clock, locks = Clock(loop), Locks()
    loop.clock = clock
    state = random.getstate()
    random.seed(loop.chance.getrandbits(64))

    def urandom(size: int) -> bytes:
        return loop.chance.randbytes(size)

    def boot_id() -> str:
        return f"boot {loop.boot_counts[current_host()]}"

    def thread(_heartbeat: Heartbeat) -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", clock.time)
        patch.setattr(time, "time_ns", clock.time_ns)
        patch.setattr(producer, "time_ns", clock.time_ns)
        patch.setattr(time, "monotonic", loop.time)
        patch.setattr(time, "perf_counter", loop.time)
        patch.setattr(os, "urandom", urandom)
        patch.setattr(random, "_urandom", urandom)
        patch.setattr(fcntl, "flock", locks.lock)
        patch.setattr(fcntl, "lockf", lambda *_: None)
        patch.setattr(
            coordination_client, "Random", lambda: random.Random(loop.chance.getrandbits(64))
        )
        patch.setattr(broker_logs, "current_boot_id", boot_id)
        patch.setattr(Heartbeat, "start", thread)
        patch.setattr(Heartbeat, "stop", thread)
        patch.setattr(coordinator, "_exit_at_once", _exit_at_once)
        patch.setattr(cleaner_process, "_yield_to_others", lambda _pid: None)
        for module in (opening, log_directory):
            patch.setattr(module, "ThreadPoolExecutor", InTurn)
        patch.setattr(coordinator, "FileLog", AwaitedLog)
        patch.setattr(Exchange, "request", loop.overlaps.counted_requests())
        loop.files.replace_calls(patch)
        yield clock
    random.setstate(state)


def _exit_at_once(error: OSError) -> None:
    process = PROCESS.get()
    assert process is not None
    process.death.set()
    raise AssertionError("the coordinator's disk failed") from error
