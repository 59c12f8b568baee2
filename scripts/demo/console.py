"""Console output of the demo: steps, commands and their output (edge)."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from ottla.cli.up.console_child import FOREIGN_VARIABLES
from scripts.demo.material import ROOT

WAIT_LIMIT_S: Final = 120.0
"""Limit of each wait, far more than needed, because other processes share the machine."""

console = Console(highlight=False, markup=False, soft_wrap=True)


class DemoError(Exception):
    """A step failed; the message states the failure."""


class Commands:
    """Runs commands in the demo's directory, and prints them with their output."""

    def __init__(self, directory: Path, address: str) -> None:
        self._directory = directory
        self._at = ("--bootstrap", address)

    def ask_broker(self, *arguments: str, output: Path | None = None) -> None:
        """Run an `ottla` command that connects to the broker."""
        self.ottla(*arguments, *self._at, output=output)

    def ottla(self, *arguments: str, output: Path | None = None) -> None:
        """Run an `ottla` command."""
        self.run([sys.executable, "-m", "ottla.cli", *arguments], ["ottla", *arguments], output)

    def run(self, command: Sequence[str], shown: Sequence[str], output: Path | None = None) -> None:
        """Run any command, printed as `shown`; `output` receives its standard output if given.

        Raises:
            DemoError: the exit code was not 0.
        """
        target = f" > {output.name}" if output else ""
        console.print(f"  $ {shlex.join(shown)}{target}", style="bold")
        # A profile, or other brokers, of the user would lead the commands elsewhere.
        own = {key: value for key, value in os.environ.items() if key not in FOREIGN_VARIABLES}
        environment = {**own, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            command, capture_output=True, check=False, cwd=self._directory, env=environment
        )
        if output is None:
            _indent(ended.stdout)
        else:
            output.write_bytes(ended.stdout)
        _indent(ended.stderr)
        if ended.returncode != 0:
            raise DemoError(f"`{shlex.join(shown)}` ended with exit code {ended.returncode}")


def _indent(written: bytes) -> None:
    for line in written.decode("utf-8", errors="replace").splitlines():
        console.print(f"    {line}")


def title(text: str) -> None:
    """Print the title of a part of the demo."""
    console.print(f"\n{text}", style="bold cyan")


def note(text: str, style: str = "") -> None:
    """Print a line below a title; `style` is a style of rich."""
    console.print(f"  {text}", style=style)
