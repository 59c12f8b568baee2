"""The shipping of modules to the workers of a cluster."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from analytics.shipping import ship_modules

SHIPS = """
from analytics.shipping import ship_modules

class Context:
    addFile = addPyFile = print

ship_modules(Context)
"""


class Context:
    """A Spark context, which refuses another path for the name of a file."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}

    def addFile(self, path: str) -> None:  # noqa: N802 - Spark's name
        assert self.paths.setdefault(Path(path).name, path) == path, "already registered"

    addPyFile = addFile  # noqa: N815 - Spark's name


def test_two_audits_of_a_process_ship_the_same_files() -> None:
    context = Context()
    ship_modules(context)
    ship_modules(context)
    with zipfile.ZipFile(context.paths["ottla-modules.zip"]) as archive:
        assert "analytics/run.py" in archive.namelist()


def test_the_files_are_removed_at_the_end_of_the_process(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", SHIPS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"{tmp_path}/ottla-modules-" in done.stdout
    assert list(tmp_path.iterdir()) == []
