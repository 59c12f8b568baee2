"""Ctrl-C while a command is still loading, or ending, has exit code 130 and no stack trace."""

import subprocess
import sys

import pytest

# Sends SIGINT when a given module is imported, from within code generated from text, as in a
# dataclass: Python remembers an interrupt that hit such code.
PROGRAM = """
import os, signal, sys
from ottla.cli.__main__ import main

class Finger:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[-1]:
            exec("os.kill(os.getpid(), signal.SIGINT)\\nfor _ in range(10_000): pass")

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finger())
main()
"""
INTERRUPTED = "ottla: the audit was interrupted; nothing is proved\n"


@pytest.mark.parametrize(
    ("module", "message"),
    [
        pytest.param("typer", "", id="before the commands load"),
        pytest.param("ottla.cli.commands.version", "", id="while the commands load"),
        pytest.param("analytics.run", INTERRUPTED, id="in a command"),
    ],
)
def test_early_interrupt_prints_no_stack_trace(module: str, message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "audit", "integrity", module],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", message)


RESTORED = """
import os, signal
from ottla.cli.__main__ import main

set_handler = signal.signal

def interrupted(number, handler):
    before = set_handler(number, handler)
    if handler is signal.default_int_handler:
        os.kill(os.getpid(), signal.SIGINT)
    return before

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal = interrupted
main()
"""


def test_interrupt_between_loading_and_the_command_prints_no_stack_trace() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RESTORED, "version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


LATE = """
import atexit, os, signal
from ottla.cli.__main__ import main

signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(os.kill, os.getpid(), signal.SIGINT)
main()
"""


def test_late_interrupt_prints_no_stack_trace() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE, "version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout.startswith("ottla ")
