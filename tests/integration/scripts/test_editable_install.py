"""An editable install like that of `make setup`, imported by a script beside the clone."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Skips the compilation, which takes minutes and does not affect the import path.
BUILD = """
import sys
sys.modules["Cython"] = sys.modules["mypyc"] = None
import setuptools.build_meta
setuptools.build_meta.build_editable(sys.argv[1])
"""
# Leaves out the environment's own packages, which may contain another install of this project.
SCRIPT = """
import site
site.addsitedir({installed!r})
import ottla, kafkawire
print(ottla.__file__)
print(kafkawire.__file__)
"""


def test_script_beside_the_clone_imports_the_package_and_not_the_clone(tmp_path: Path) -> None:
    clone, wheels, installed = (tmp_path / name for name in ("ottla", "wheels", "installed"))
    clone.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    sources = shutil.ignore_patterns("__pycache__", "*.so", "binaries_*", "*.c")
    for name in ("ottla", "kafkawire", "speedups"):
        shutil.copytree(ROOT / name, clone / name, ignore=sources)
    wheels.mkdir()
    subprocess.run(
        [sys.executable, "-c", BUILD, str(wheels)], cwd=clone, check=True, capture_output=True
    )
    [wheel] = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
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
