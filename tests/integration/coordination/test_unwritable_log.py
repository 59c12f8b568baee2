"""A coordinator whose log cannot be written."""

import subprocess
from pathlib import Path

from tests.integration.coordination.process import START_TIMEOUT_S
from tests.programs import Program


def test_a_coordinator_starts_and_stops_although_its_log_cannot_be_written(tmp_path: Path) -> None:
    arguments = ["--listen=127.0.0.1:0", f"--data-dir={tmp_path}"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        process = Program("coordination", arguments, stdout=subprocess.PIPE, stderr=full)
    assert process.stdout is not None
    with process.stdout as lines:
        assert lines.readline().startswith("ready ")
        process.terminate()
        assert process.wait(START_TIMEOUT_S) == 0
