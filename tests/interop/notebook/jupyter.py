"""Jupyter in a virtual environment of its own, which `make interop` installs once into the cache.

It needs thirty packages that nothing else here uses. The notebook's kernel runs there, and finds
the packages of the project's environment first.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pytest

from tests.interop.own_environment import OwnEnvironment

ROOT: Final = Path(__file__).resolve().parents[3]
JUPYTER: Final = OwnEnvironment("jupyter", Path(__file__).with_suffix(".txt"))
PROGRAM: Final = Path(__file__).with_name("execute.py")
TIMEOUT_S: Final = 1_500
"""Starts Spark twice, which takes minutes beside other work."""

needs_jupyter = pytest.mark.skipif(
    not JUPYTER.is_ready(), reason="Jupyter is missing: `make interop` installs it"
)


def execute(notebook: Path, executed: Path) -> None:
    """Run all cells of `notebook`, and write it with their outputs to `executed`.

    Raises:
        AssertionError: a cell raised; the message has its traceback.
    """
    packages = sysconfig.get_path("purelib")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{packages}",
        "PYSPARK_PYTHON": sys.executable,
        "HOME": str(executed.parent),
    }
    log = executed.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(JUPYTER.python), str(PROGRAM), str(notebook), str(executed)],
            cwd=executed.parent,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        code = process.wait(TIMEOUT_S)
    finally:
        # The kernel ends with its client.
        process.kill()
        process.wait()
    assert code == 0, log.read_text(errors="replace")


if __name__ == "__main__":
    JUPYTER.install()
