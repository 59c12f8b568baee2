"""Programs whose standard streams cannot be written."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from monitoring.log_lines import log_lines
log_lines(sys.stderr).write("an event\\n")
sys.stdout.write("a result")
"""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_cannot_be_written_does_not_change_the_exit_code(stream: str) -> None:
    """Python itself would exit with 120, after the last attempt to write its buffers."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            stdout=full if stream == "stdout" else subprocess.PIPE,
            stderr=full if stream == "stderr" else subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 0
    assert (ended.stdout or "") + (ended.stderr or "") in ("a result", "an event\n")


def test_a_stream_that_the_program_has_closed_is_left_alone() -> None:
    program = f"{PROGRAM}\nsys.stdout.close()"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "a result", "an event\n")
