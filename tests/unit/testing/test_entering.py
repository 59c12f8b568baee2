"""Starts from an event loop, second starts and forks of tests: `ottla.testing.entering`."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from ottla.testing import launching
from ottla.testing.entering import enter_in_thread
from ottla.testing.errors import StartError, StateError
from ottla.testing.workplace import Workplace


class Slow:
    """Servers whose start lasts until `may_start`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.has_begun = threading.Event()
        self.may_start = threading.Event()
        self.is_closed = False
        self._error = error

    def __enter__(self) -> Slow:
        self.has_begun.set()
        assert self.may_start.wait(60)
        if self._error is not None:
            raise self._error
        return self

    def close(self) -> None:
        self.is_closed = True


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
