"""`make setup` that fails or is interrupted, with stand-ins for Python and pip."""

import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.up.conftest import is_running
from tests.waiting import until_sync

SCRIPT = Path(__file__).parents[3] / "scripts" / "setup.sh"
TIMEOUT_S = 60
# Two installations run as jobs: each reports its process id to the third, and then takes long.
PIP = """\
*run-requirements*) echo $$ >small; exec sleep 60 ;;
*analytics-requirements*) echo $$ >spark; exec sleep 60 ;;
*--editable*) cat small spark >pids.tmp; mv pids.tmp pids; exit {exit_code} ;;
"""


def make_program(path: Path, cases: str) -> None:
    """Write a program that acts by its arguments, and succeeds without a case."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}esac\n')
    path.chmod(0o755)


class Setup:
    """The script in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.pids = directory / "pids"
        self._directory = directory
        for name in ("small", "spark"):
            os.mkfifo(directory / name)

    def start(self, exit_code: int) -> subprocess.Popen[bytes]:
        """Start the script; the installation of the project itself has an exit code."""
        make_program(self._directory / "venv/bin/python", PIP.format(exit_code=exit_code))
        # Jobs that outlive it would keep pipes open.
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            ["sh", str(SCRIPT), "venv"], cwd=self._directory, stdout=nothing, stderr=nothing
        )

    def jobs(self) -> list[int]:
        """Return the process ids of the jobs."""
        lines = self.pids.read_text().splitlines() if self.pids.exists() else []
        return [int(line) for line in lines]


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Setup]:
    script = Setup(tmp_path)
    yield script
    for pid in filter(is_running, script.jobs()):
        os.kill(pid, signal.SIGKILL)


def test_a_failure_ends_the_installations_beside_it(script: Setup) -> None:
    assert script.start(exit_code=7).wait(TIMEOUT_S) == 7
    assert len(script.jobs()) == 2
    assert not any(map(is_running, script.jobs()))


def test_an_interrupt_ends_all_installations(script: Setup) -> None:
    process = script.start(exit_code=0)
    until_sync(script.pids.exists, "both jobs")
    process.send_signal(signal.SIGTERM)
    process.wait(TIMEOUT_S)
    assert len(script.jobs()) == 2
    assert not any(map(is_running, script.jobs()))


def set_up(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the script with the programs in `directory` and its folder `bin`."""
    return subprocess.run(
        ["sh", str(SCRIPT), "venv"],
        cwd=directory,
        env={
            **os.environ,
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "PYTHON": str(directory / "python"),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_an_environment_without_pip_is_made_again(tmp_path: Path) -> None:
    make_program(tmp_path / "venv/bin/python", "*-m\\ pip*) exit 1 ;;\n")
    make_program(tmp_path / "python", '*-m\\ venv*) echo "$*" >made; exit 9 ;;\n')
    assert set_up(tmp_path).returncode == 9
    assert (tmp_path / "made").read_text() == "-m venv --clear venv\n"


def test_an_environment_of_another_tool_gets_pip(tmp_path: Path) -> None:
    """As of `uv venv`: its packages would be lost in a new one."""
    cases = (
        "*-m\\ ensurepip*) touch pip ;;\n"
        "*-m\\ pip\\ --version*) test -e pip; exit ;;\n"
        "*build-requirements*) exit 7 ;;\n"
    )
    make_program(tmp_path / "venv/bin/python", cases)
    (tmp_path / "venv/bin/activate").touch()
    make_program(tmp_path / "python", "*-m\\ venv*) exit 9 ;;\n")
    ended = set_up(tmp_path)
    assert (ended.returncode, (tmp_path / "pip").exists()) == (7, True)


@pytest.mark.skipif(shutil.which("flock") is None, reason="flock is not installed")
def test_two_at_once_take_turns(tmp_path: Path) -> None:
    make_program(tmp_path / "python", "*-m\\ venv*) exit 9 ;;\n")
    with SCRIPT.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen(
            ["sh", str(SCRIPT), "venv"],
            cwd=tmp_path,
            env={**os.environ, "PYTHON": str(tmp_path / "python")},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert second.stdout is not None
        with second.stdout as lines:
            assert lines.readline() == "Waiting for another make in this directory.\n"
            assert second.poll() is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert lines.readline().startswith("Creating venv with")
        assert second.wait(TIMEOUT_S) == 9


def test_a_file_system_without_locks_is_no_obstacle(tmp_path: Path) -> None:
    make_program(tmp_path / "python", "*-m\\ venv*) exit 9 ;;\n")
    # The exit code of util-linux for an error, as on NFS.
    make_program(tmp_path / "bin/flock", "*) exit 65 ;;\n")
    ended = set_up(tmp_path)
    assert ended.returncode == 9
    assert ended.stdout.startswith("Creating venv with")
