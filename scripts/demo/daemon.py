"""Broker of the demo: a process of its own (edge)."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from ottla.cli.up.process import die_with_parent
from scripts.demo.console import WAIT_LIMIT_S

READY_EVENT: Final = "broker.started"


class BrokerFailedError(Exception):
    """The broker did not start; the message is the end of its log."""


class Daemon:
    """`ottla broker` on a free port, logging JSON lines to a file."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self._log = directory / "broker.log"
        self._command = [
            *(sys.executable, "-m", "ottla.cli", "broker"),
            *("--override", "listeners=PLAINTEXT://127.0.0.1:0"),
            *("--override", f"log.dirs={self.data}"),
        ]

    def start(self) -> tuple[str, float]:
        """Start the broker; return `HOST:PORT` and the seconds until it was ready.

        Raises:
            BrokerFailedError: the broker exited, or was not ready within `WAIT_LIMIT_S`.
        """
        started_s = time.perf_counter()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.DEVNULL,
                stderr=log,
                stdin=subprocess.DEVNULL,
                # Ctrl-C is for the demo, which then stops it in order.
                process_group=0,
                preexec_fn=die_with_parent(os.getpid()),
            )
        try:
            while (address := self._address()) is None:
                ready_s = time.perf_counter() - started_s
                if self._process.poll() is not None or ready_s > WAIT_LIMIT_S:
                    self.stop()
                    raise BrokerFailedError(self._log.read_text(errors="replace")[-2_000:])
                time.sleep(0.005)
        except KeyboardInterrupt:
            self.stop()
            raise
        return address, time.perf_counter() - started_s

    def _address(self) -> str | None:
        for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.get("event") == READY_EVENT:
                return str(event["bound_addresses"][0])
        return None

    @property
    def pid(self) -> int:
        """Process id of the broker."""
        return self._process.pid

    def stop(self) -> int:
        """Stop the broker as a service manager would (SIGTERM) and return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(WAIT_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
