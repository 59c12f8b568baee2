"""Starts from an event loop, second starts and forks of tests: `ottla.testing.entering`."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ottla.testing import launching
from ottla.testing.entering import enter_in_thread, leave_in_thread
from ottla.testing.errors import StartError, StateError
from ottla.testing.network.control import NetworkControl
from ottla.testing.server import Server
from ottla.testing.workplace import Workplace
from tests.waiting import until


class Slow:
    """Servers whose start lasts until `may_start`, and whose end until `may_end`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.has_begun = threading.Event()
        self.may_start = threading.Event()
        self.begins_to_end = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()
        self.is_closed = False
        self._error = error

    def __enter__(self) -> Slow:
        self.has_begun.set()
        assert self.may_start.wait(60)
        if self._error is not None:
            raise self._error
        return self

    def close(self) -> None:
        self.begins_to_end.set()
        assert self.may_end.wait(60)
        self.is_closed = True


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and let it handle that."""
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()


@pytest.mark.parametrize("error", [None, StartError("no")])
async def test_a_cancelled_start_leaves_no_servers(error: StartError | None) -> None:
    servers = Slow(error)
    start = asyncio.create_task(enter_in_thread(servers))
    await asyncio.to_thread(servers.has_begun.wait)
    start.cancel()
    servers.may_start.set()
    with pytest.raises(asyncio.CancelledError):
        await start
    # A start that fails closes its servers itself.
    assert servers.is_closed == (error is None)


async def test_a_start_that_is_cancelled_again_and_again_leaves_no_servers() -> None:
    servers = Slow()
    servers.may_end.clear()
    start = asyncio.create_task(enter_in_thread(servers))
    await asyncio.to_thread(servers.has_begun.wait)
    await cancel(start)
    await cancel(start)
    servers.may_start.set()
    await asyncio.to_thread(servers.begins_to_end.wait)
    await cancel(start)
    servers.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert servers.is_closed


async def test_a_start_that_is_cancelled_at_its_end_leaves_no_servers() -> None:
    servers = Slow()
    pool = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(pool)
    start = asyncio.create_task(enter_in_thread(servers))
    await until(servers.has_begun.is_set, "the thread")
    servers.may_start.set()
    # The thread has started the servers, and the event loop does not know it yet.
    pool.submit(int).result()
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert servers.is_closed


async def test_a_cancelled_end_is_waited_for() -> None:
    servers = Slow()
    servers.may_end.clear()
    end = asyncio.create_task(leave_in_thread(servers))
    await asyncio.to_thread(servers.begins_to_end.wait)
    await cancel(end)
    await cancel(end)
    servers.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await end
    assert servers.is_closed


async def test_a_start_returns_the_servers_or_its_error() -> None:
    servers = Slow()
    servers.may_start.set()
    assert await enter_in_thread(servers) is servers
    broken = Slow(StartError("no"))
    broken.may_start.set()
    with pytest.raises(StartError, match="no"):
        await enter_in_thread(broken)
    assert not servers.is_closed


def test_a_directory_has_one_user_at_a_time() -> None:
    workplace = Workplace(None)
    workplace.require_closed()
    first = workplace.open()
    with pytest.raises(StateError, match="started already"):
        workplace.require_closed()
    workplace.close()
    assert not first.exists()
    workplace.require_closed()


def test_a_directory_with_a_comma_is_refused(tmp_path: Path) -> None:
    workplace = Workplace(tmp_path / "a,b")
    with pytest.raises(ValueError, match="comma, which separates log directories"):
        workplace.open()
    assert not (tmp_path / "a,b").exists()


def test_a_forked_child_inherits_the_directory_and_no_lock(tmp_path: Path) -> None:
    workplace = Workplace(tmp_path)
    workplace.open()
    with launching._lock:
        child = os.fork()
        if child == 0:
            is_free = launching._lock.acquire(blocking=False)
            os._exit(0 if workplace.is_inherited and is_free else 1)
    assert not workplace.is_inherited
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_network_that_does_not_start_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    discarded: list[Server] = []

    def start(server: Server) -> None:
        folders.append(Path(server._arguments[0]).parent)
        raise StartError("no")

    def discard(server: Server) -> None:
        discarded.append(server)

    monkeypatch.setattr(Server, "start", start)
    monkeypatch.setattr(Server, "discard", discard)
    with pytest.raises(StartError, match="no"):
        NetworkControl(tmp_path)
    assert [folder.exists() for folder in folders] == [False]
    assert len(discarded) == 1
