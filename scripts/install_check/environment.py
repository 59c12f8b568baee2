"""A clean virtual environment, and the archives to install in it (edge)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

BUILD_SDIST: Final = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"
# Printed by a program in the environment, in an empty directory.
FACTS: Final = """\
import importlib.metadata, importlib.resources, speedups.finder, sys
import kafkawire.native, ottla, ottla.spark, ottla.testing
roots = [importlib.resources.files(name) for name in ("ottla", "kafkawire")]
typed = all(root.joinpath("py.typed").is_file() for root in roots)
extras = set(importlib.metadata.metadata("ottla").get_all("Provides-Extra"))
print(typed, {"analytics", "security", "testing"} <= extras, speedups.finder.are_built())
"""
LEFT: Final = """\
import importlib.util
names = ("ottla", "kafkawire", "broker", "storage", "coordination", "analytics", "speedups")
print(*(name for name in names if importlib.util.find_spec(name)))
"""
TIMEOUT_S: Final = 3_600


class CheckError(Exception):
    """An installation is not as it should be; the message has the output of the program."""


class Environment:
    """A virtual environment, with nothing but pip in it."""

    def __init__(self, python: Path, place: Path) -> None:
        self._place = place
        self.programs = place / "bin"
        _run([str(python), "-m", "venv", str(place)], place.parent, {})

    def build_wheel(self, sdist: Path, target: Path, settings: Mapping[str, str]) -> Path:
        """Build a wheel from a source archive and return its path."""
        self._pip("wheel", "--no-deps", "--wheel-dir", str(target), str(sdist), settings=settings)
        [wheel] = target.glob("*.whl")
        return wheel

    def install(self, *requirements: str, settings: Mapping[str, str]) -> None:
        """Install requirements, with `settings` in the environment of builds."""
        self._pip("install", *requirements, settings=settings)

    def check_installed(self, *, is_compiled: bool) -> None:
        """Check the facts of an installation.

        Raises:
            CheckError: a fact is not as expected.
        """
        found = self._python(FACTS).split()
        expected = ["True", "True", str(is_compiled)]
        if found != expected:
            raise CheckError(f"typed, extras, compiled: expected {expected}, found {found}")
        _run([str(self.programs / "ottla"), "version"], self._place, {})

    def uninstall(self) -> None:
        """Uninstall Ottla.

        Raises:
            CheckError: a package or the command is left.
        """
        self._pip("uninstall", "--yes", "ottla", settings={})
        left = self._python(LEFT).split()
        if left or (self.programs / "ottla").exists():
            raise CheckError(f"left after the removal: {left or 'the command'}")

    def _pip(self, *words: str, settings: Mapping[str, str]) -> None:
        quiet = ("--quiet", "--disable-pip-version-check")
        command = [str(self.programs / "python"), "-m", "pip", *words, *quiet]
        _run(command, self._place, settings)

    def _python(self, program: str) -> str:
        # Isolated, as this process may run in a checkout.
        return _run([str(self.programs / "python"), "-I", "-c", program], self._place, {})


def build_sdist(root: Path, target: Path) -> Path:
    """Build the source archive of a checkout and return its path."""
    target.mkdir()
    # In a copy of the versioned files: binaries and other products of the checkout stay out.
    copy = target / "checkout"
    copy.mkdir()
    listed = _run(["git", "ls-files", "-z"], root, {}).split("\0")
    for name in filter(None, listed):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, copy / name)
    _run([sys.executable, "-c", BUILD_SDIST, str(target)], copy, {"OTTLA_PURE_PYTHON": "1"})
    [archive] = target.glob("*.tar.gz")
    return archive


def find_python(version: str) -> Path | None:
    """Return the interpreter of a version on this machine, if there is a usable one."""
    name = f"python{version}"
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"), reverse=True)
    on_path = shutil.which(name)
    candidates: list[Path] = [
        *installed,
        *([Path(on_path)] if on_path else ()),
        Path("/usr/bin", name),
    ]
    for candidate in candidates:
        probe = [str(candidate), "-c", "import ensurepip, venv"]
        if candidate.exists():
            tried = subprocess.run(probe, capture_output=True, check=False)
            if tried.returncode == 0:
                return candidate
    return None


def _run(command: list[str], directory: Path, settings: Mapping[str, str]) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=directory,
        env={**clean, **settings},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise CheckError(f"{' '.join(command[:4])} ...: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
