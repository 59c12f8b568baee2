"""Ctrl-C while a command is still being loaded ends it with 130, and without a stack trace."""

import subprocess
import sys

import pytest

# Presses Ctrl-C where a module is looked for. In code that is made from text, as dataclasses make
# theirs: Python keeps in mind that an interrupt came out of such code.
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
    ("module", "told"),
    [
        pytest.param("typer", "", id="before there is a command"),
        pytest.param("ottla.cli.commands.version", "", id="among the commands"),
        pytest.param("analytics.run", INTERRUPTED, id="in a command"),
    ],
)
def test_an_early_interrupt_is_no_stack_trace(module: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "audit", "integrity", module],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", told)
