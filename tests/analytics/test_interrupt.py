"""Ctrl-C ends an audit, and all that it has started, wherever Spark is on its way."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from analytics.interrupt import InterruptGuard
from tests.analytics.conftest import needs_java
from tests.analytics.log_model import make_log
from tests.integration.coordination.process import wait_until

DEADLINE_S = 120.0
PARTITIONS = 16
ONE_CORE = ("--master", "local[1]")
ENDS_WITHIN_S = 15.0  # on a busy machine; on a quiet one it is a second


def started_by(process: subprocess.Popen[str]) -> dict[int, str]:
    """The living processes of its session, itself excepted, with their command lines."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if int(session) == process.pid != int(entry.name) and state not in "ZX":
            found[int(entry.name)] = command
    return found


def has_begun_java(process: subprocess.Popen[str]) -> bool:
    return any("pyspark-shell" in command for command in started_by(process).values())


def speaks_with_java(process: subprocess.Popen[str]) -> bool:
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        # One may be closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if str(descriptor.readlink()).startswith("socket:"):
                return True
    return False


def runs_tasks(process: subprocess.Popen[str]) -> bool:
    return any("worker_daemon" in command for command in started_by(process).values())


def listen_to_interrupts() -> None:
    # A shell's background processes do not, and hand that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start_sleeper(program: str) -> subprocess.Popen[bytes]:
    """Run `program`, which may say itself when it is `ready`."""
    head = "ready = lambda: print(flush=True);"
    say = "" if "ready()" in program else "ready();"
    sleeper = subprocess.Popen(
        [sys.executable, "-c", f"{head} {say} {program}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert sleeper.stdout is not None
    sleeper.stdout.readline()
    return sleeper


def end(sleeper: subprocess.Popen[bytes]) -> int:
    """Close what the process reads, and return its exit code."""
    sleeper.communicate()
    return sleeper.returncode


def interrupt_after(*programs: str, interrupt: Callable[[], None]) -> list[int]:
    """Start processes in a block that is interrupted; return their exit codes."""
    started: list[subprocess.Popen[bytes]] = []

    def work() -> None:
        with InterruptGuard():
            started.extend(start_sleeper(program) for program in programs)
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        work()
    return [end(each) for each in started]


def type_it() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def type_it_and_fail() -> None:
    try:
        type_it()
    except KeyboardInterrupt:
        raise RuntimeError("Spark did not start") from None


def raise_it() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(type_it, id="typed"),
        pytest.param(type_it_and_fail, id="typed, and made something else of"),
        pytest.param(raise_it, id="raised by Spark's own handler"),
    ],
)
def test_what_the_block_has_started_is_ended(interrupt: Callable[[], None]) -> None:
    assert interrupt_after("input()", "input()", interrupt=interrupt) == [-signal.SIGTERM] * 2


def test_what_ran_before_goes_on() -> None:
    before = start_sleeper("input()")
    interrupt_after(interrupt=type_it)
    assert before.poll() is None
    end(before)


def test_who_does_not_end_in_time_is_killed() -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    assert interrupt_after(f"{deaf}; ready(); input()", interrupt=raise_it) == [-signal.SIGKILL]


def test_the_handler_before_is_the_handler_after() -> None:
    before = signal.getsignal(signal.SIGINT)
    with InterruptGuard() as guard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        guard.renew()
        assert signal.getsignal(signal.SIGINT) not in (before, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGINT) is before


@needs_java
@pytest.mark.parametrize("is_reached", [has_begun_java, speaks_with_java, runs_tasks])
def test_nothing_is_left_behind(
    tmp_path: Path, is_reached: Callable[[subprocess.Popen[str]], bool]
) -> None:
    # One after the other, so that the last is some time away when the first has begun.
    for partition in range(PARTITIONS):
        make_log(partition=partition).write(tmp_path)
    audit = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "audit", "integrity", str(tmp_path), *ONE_CORE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=listen_to_interrupts,
    )
    try:
        wait_until(lambda: audit.poll() is not None or is_reached(audit), DEADLINE_S)
        assert audit.poll() is None, audit.communicate()
        # As a terminal does it: to all that it runs.
        os.killpg(audit.pid, signal.SIGINT)
        audit.wait(ENDS_WITHIN_S)
        # What Java was about to start has no parent any more: it reads that, and ends.
        wait_until(lambda: not started_by(audit), ENDS_WITHIN_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(audit.pid, signal.SIGKILL)
    out, err = audit.communicate(timeout=DEADLINE_S)
    assert (audit.returncode, out) == (130, "")
    assert err == "ottla: the audit was interrupted; nothing is proved\n"
