"""Cluster of the demo: `ottla up` as a process of its own (edge)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.cli.up.process import die_with_parent
from scripts.demo.console import WAIT_LIMIT_S, Commands, DemoError, note
from scripts.demo.material import ROOT

BROKERS: Final = 3
DIRECTORY: Final = "cluster"
# The default of 15 s would delay the demo.
CLEANER_BACKOFF_MS: Final = 200


class Cluster:
    """`ottla up` with three brokers on free ports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / DIRECTORY
        self._log = directory / "up.log"
        arguments = (
            *("up", "--brokers", str(BROKERS), "--port", "0", "--no-console", "--dir", DIRECTORY),
            *("--override", f"log.cleaner.backoff.ms={CLEANER_BACKOFF_MS}"),
        )
        note(f"$ ottla {' '.join(arguments)}", style="bold")
        started_s = time.perf_counter()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli", *arguments],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C is for the demo, which then stops it in order.
                process_group=0,
                preexec_fn=die_with_parent(os.getpid()),
            )
        try:
            self.bootstrap = self._wait_until_ready(started_s)
        except KeyboardInterrupt:
            self.stop()
            raise
        self.commands = Commands(directory, self.bootstrap)

    def _wait_until_ready(self, started_s: float) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            self.stop()
            raise DemoError(self._log.read_text(errors="replace")[-2_000:])
        note(f"  {line.strip()}  ({time.perf_counter() - started_s:.2f} s)")
        return line.split()[1]

    @property
    def log_directories(self) -> list[Path]:
        """Log directory of each broker, in order."""
        return [self.directory / f"broker-{number}" for number in range(1, BROKERS + 1)]

    def stop(self) -> int:
        """Stop the cluster as Ctrl-C would, and return the exit code."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.communicate(timeout=WAIT_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return self._process.returncode


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """Run a cluster; at the end stop it and verify its logs.

    Raises:
        DemoError: the cluster did not start, did not stop cleanly, or its logs are inconsistent.
    """
    cluster = Cluster(directory)
    try:
        yield cluster
    finally:
        exit_code = cluster.stop()
    if exit_code != 0:
        raise DemoError(f"`ottla up` ended with exit code {exit_code}")
    names = [str(path.relative_to(directory)) for path in cluster.log_directories]
    cluster.commands.ottla("logs", "verify", *names)
