"""Runs the `ottla` command in this process, which is fast, or in a process of its own."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
import typer.main

from ottla.cli.app import make_app

TIMEOUT_S = 60


class Ended(NamedTuple):
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


class RunOttla(Protocol):
    """Runs `ottla ARGUMENT...` to its end."""

    def __call__(
        self, *arguments: str | Path, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> Ended:
        """Return the exit code and output of the command; `env` adds to the environment."""


@cache
def command() -> Callable[..., Any]:
    """Return the whole command, which takes longer to build than most commands to run."""
    return typer.main.get_command(make_app())


@pytest.fixture
def run_ottla(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunOttla:
    """Run the command in this process, with files for its standard streams."""

    def run(*arguments: str | Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Ended:
        source = tmp_path / "standard-input"
        source.write_text(stdin, encoding="utf-8")
        output, errors = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
        with monkeypatch.context() as patch, source.open(encoding="utf-8") as given:
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", given)
            patch.setattr(sys, "stdout", output)
            patch.setattr(sys, "stderr", errors)
            with pytest.raises(SystemExit) as ended:
                command()(list(map(str, arguments)), prog_name="ottla")
        return Ended(int(ended.value.code or 0), _written(output), _written(errors))

    return run


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    data = stream.buffer
    assert isinstance(data, io.BytesIO)
    return data.getvalue().decode("utf-8")


@pytest.fixture
def run_ottla_process() -> RunOttla:
    """Run the command in a process of its own."""

    def run(*arguments: str | Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-m", "ottla.cli", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, **(env or {})},
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run
