"""Runs the command as a user would: in a process of its own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TIMEOUT_S = 60

Result = subprocess.CompletedProcess[str]
RunOttla = Callable[..., Result]


@pytest.fixture
def run_ottla() -> RunOttla:
    """A function that runs `ottla ARGUMENT...` to its end and returns what it wrote."""

    def run(*arguments: str | Path, stdin: str = "", env: dict[str, str] | None = None) -> Result:
        return subprocess.run(
            [sys.executable, "-m", "ottla.cli", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env=env,
        )

    return run
