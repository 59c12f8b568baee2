"""Builds of a clone: an editable install like that of `make setup`, and a wheel."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from speedups.modules import folder_name, sources_state

ROOT = Path(__file__).parents[3]
# Skips the compilation, which takes minutes and does not affect the import path.
BUILD = """
import sys
sys.modules["Cython"] = sys.modules["mypyc"] = None
import setuptools.build_meta
getattr(setuptools.build_meta, sys.argv[1])(sys.argv[2])
"""
# Leaves out the environment's own packages, which may contain another install of this project.
SCRIPT = """
import site
site.addsitedir({installed!r})
import ottla, kafkawire
print(ottla.__file__)
print(kafkawire.__file__)
"""


def make_clone(clone: Path) -> None:
    """Copy some packages, without their binaries."""
    clone.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    sources = shutil.ignore_patterns("__pycache__", "*.so", "binaries_*", "*.c")
    for name in ("ottla", "kafkawire", "speedups"):
        shutil.copytree(ROOT / name, clone / name, ignore=sources)


def build(kind: str, clone: Path, wheels: Path) -> zipfile.ZipFile:
    """Build a wheel by a function of the build backend."""
    wheels.mkdir()
    subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(wheels)], cwd=clone, check=True, capture_output=True
    )
    [wheel] = wheels.iterdir()
    return zipfile.ZipFile(wheel)


def test_script_beside_the_clone_imports_the_package_and_not_the_clone(tmp_path: Path) -> None:
    clone, wheels, installed = (tmp_path / name for name in ("ottla", "wheels", "installed"))
    make_clone(clone)
    with build("build_editable", clone, wheels) as archive:
        archive.extractall(installed)

    script = tmp_path / "app.py"
    script.write_text(SCRIPT.format(installed=str(installed)))
    ran = subprocess.run(
        [sys.executable, "-S", "-E", str(script)], capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout.split() == [
        str(clone / name / "__init__.py") for name in ("ottla", "kafkawire")
    ]


def test_wheel_contains_nothing_that_only_a_former_build_had(tmp_path: Path) -> None:
    clone = tmp_path / "ottla"
    make_clone(clone)
    current = f"speedups/{folder_name(sources_state(clone))}/storage/log/log.so"
    former = [
        "kafkawire/renamed.py",
        "ottla/console/static/renamed.css",
        "speedups/binaries_0ld/storage/log/log.so",
        "speedups/storage_0ld__mypyc.so",
    ]
    for name in (current, *former):
        path = clone / "build/lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with build("build_wheel", clone, tmp_path / "wheels") as archive:
        names = archive.namelist()
    assert not {*former} & {*names}
    assert {current, "kafkawire/records.py"} <= {*names}
