"""SIGTERM and SIGHUP end the work of a client as Ctrl-C does: `ottla.cli.termination`."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.cli.termination import Terminated, run_until_signal


@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ((signal.SIGTERM,), Terminated),
        ((signal.SIGINT,), KeyboardInterrupt),
        ((signal.SIGTERM, signal.SIGINT), Terminated),
    ],
)
def test_a_signal_cancels_the_work(
    numbers: tuple[signal.Signals, ...], error: type[BaseException]
) -> None:
    has_ended_in_order = False

    async def work() -> None:
        nonlocal has_ended_in_order
        for number in numbers:
            signal.raise_signal(number)
        try:
            await asyncio.Event().wait()
        finally:
            has_ended_in_order = True

    with pytest.raises(KeyboardInterrupt) as caught:
        run_until_signal(work())
    assert (caught.type, has_ended_in_order) == (error, True)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


STUBBORN = """
import signal
from ottla.cli.termination import run_until_signal

async def work():
    signal.raise_signal(signal.SIGTERM)
    print("first", flush=True)
    signal.raise_signal(signal.SIGTERM)
    print("second", flush=True)

run_until_signal(work())
"""


def test_a_second_signal_kills_work_that_does_not_end() -> None:
    done = subprocess.run([sys.executable, "-c", STUBBORN], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "first\n", "")


HUNG_UP = """
import asyncio, signal
from ottla.cli.termination import Terminated, run_until_signal

async def work():
    signal.raise_signal(signal.SIGHUP)
    try:
        await asyncio.Event().wait()
    finally:
        signal.raise_signal(signal.SIGHUP)
        print("ended in order", flush=True)

try:
    run_until_signal(work())
except Terminated as end:
    raise SystemExit(end.exit_code)
"""


def test_a_terminal_that_closes_ends_the_work_in_order() -> None:
    done = subprocess.run([sys.executable, "-c", HUNG_UP], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (129, "ended in order\n", "")


def test_a_signal_after_the_end_of_the_loop_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    run = asyncio.run

    def run_until_late_signal(outcome: Coroutine[Any, Any, object]) -> object:
        result = run(outcome)
        signal.raise_signal(signal.SIGTERM)
        return result

    async def work() -> int:
        return 7

    monkeypatch.setattr(asyncio, "run", run_until_late_signal)
    assert run_until_signal(work()) == 7
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_ignored_signal_stays_ignored() -> None:
    async def work() -> int:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)
        return 7

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert run_until_signal(work()) == 7
    finally:
        signal.signal(signal.SIGTERM, before)


def test_work_may_run_in_another_thread() -> None:
    found: list[int] = []

    async def work() -> int:
        return 7

    thread = threading.Thread(target=lambda: found.append(run_until_signal(work())))
    thread.start()
    thread.join(60)
    assert found == [7]
