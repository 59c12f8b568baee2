"""Ctrl-C ends an audit and all its child processes, at every stage of Spark's start."""

import contextlib
import logging
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


def started_by(process: subprocess.Popen[str]) -> dict[int, str]:
    """Return the other live processes in its session, with their command lines."""
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


def has_started_java(process: subprocess.Popen[str]) -> bool:
    return any("pyspark-shell" in command for command in started_by(process).values())


def is_connected_to_java(process: subprocess.Popen[str]) -> bool:
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        # A descriptor may be closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if str(descriptor.readlink()).startswith("socket:"):
                return True
    return False


def has_started_workers(process: subprocess.Popen[str]) -> bool:
    return any("worker_daemon" in command for command in started_by(process).values())


def accept_interrupts() -> None:
    # A shell's background processes ignore interrupts, and their children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start_sleeper(program: str) -> subprocess.Popen[bytes]:
    """Start `program` and wait until it is ready, which it may announce by `ready()`."""
    head = "ready = lambda: print(flush=True);"
    call = "" if "ready()" in program else "ready();"
    sleeper = subprocess.Popen(
        [sys.executable, "-c", f"{head} {call} {program}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert sleeper.stdout is not None
    sleeper.stdout.readline()
    return sleeper


def end(sleeper: subprocess.Popen[bytes]) -> int:
    """Close the standard input of the process, and return its exit code."""
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


def send_sigint() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def send_sigint_and_fail() -> None:
    try:
        send_sigint()
    except KeyboardInterrupt:
        raise RuntimeError("Spark did not start") from None


def raise_interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(send_sigint, id="sent"),
        pytest.param(send_sigint_and_fail, id="sent, and turned into another error"),
        pytest.param(raise_interrupt, id="raised by Spark's own handler"),
    ],
)
def test_interrupt_ends_the_processes_of_the_block(interrupt: Callable[[], None]) -> None:
    assert interrupt_after("input()", "input()", interrupt=interrupt) == [-signal.SIGTERM] * 2


def test_processes_from_before_the_block_keep_running() -> None:
    before = start_sleeper("input()")
    interrupt_after(interrupt=send_sigint)
    assert before.poll() is None
    end(before)


def test_process_that_ignores_sigterm_is_killed() -> None:
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    exit_codes = interrupt_after(f"{ignore}; ready(); input()", interrupt=raise_interrupt)
    assert exit_codes == [-signal.SIGKILL]


def test_traceback_of_an_interrupted_call_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        with InterruptGuard():
            try:
                send_sigint()
            except KeyboardInterrupt:
                # As py4j does.
                logging.exception("KeyboardInterrupt while sending command.")
                raise

    with pytest.raises(KeyboardInterrupt):
        work()
    logging.error("another message")
    assert [record.message for record in caplog.records] == ["another message"]


def test_guard_restores_the_previous_handler() -> None:
    before = signal.getsignal(signal.SIGINT)
    with InterruptGuard() as guard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        guard.renew()
        assert signal.getsignal(signal.SIGINT) not in (before, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGINT) is before


@needs_java
@pytest.mark.parametrize(
    "is_reached", [has_started_java, is_connected_to_java, has_started_workers]
)
def test_interrupted_audit_leaves_no_process_behind(
    tmp_path: Path, is_reached: Callable[[subprocess.Popen[str]], bool]
) -> None:
    # One core runs the tasks one by one, so the audit is far from its end when the first starts.
    for partition in range(PARTITIONS):
        make_log(partition=partition).write(tmp_path)
    audit = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "audit", "integrity", str(tmp_path), *ONE_CORE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=accept_interrupts,
    )
    try:
        wait_until(lambda: audit.poll() is not None or is_reached(audit), DEADLINE_S)
        assert audit.poll() is None, audit.communicate()
        # A terminal sends the signal to the whole process group.
        os.killpg(audit.pid, signal.SIGINT)
        audit.wait(DEADLINE_S)
        # A process that Java was just starting has lost its parent, and ends by itself.
        wait_until(lambda: not started_by(audit), DEADLINE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(audit.pid, signal.SIGKILL)
    out, err = audit.communicate(timeout=DEADLINE_S)
    assert (audit.returncode, out) == (130, "")
    assert err == "ottla: the audit was interrupted; nothing is proved\n"
