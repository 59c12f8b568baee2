"""Installs Ottla in clean environments, runs the README in each, and uninstalls it (composition).

    python -m scripts.install_check [--plain] [VERSION ...]

For each Python of this machine (3.11, 3.12 and 3.13 by default), a wheel with compiled modules is
built from the source archive, and installed; then the source archive itself, without a compiler.
`--plain` skips the compilation, which takes minutes: the wheel is then one of plain Python.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.install_check.environment import CheckError, Environment, build_sdist, find_python
from scripts.install_check.readme import ReadmeError, run_readme

ROOT: Final = Path(__file__).resolve().parents[2]
VERSIONS: Final = ("3.11", "3.12", "3.13")
PLAIN: Final = {"OTTLA_PURE_PYTHON": "1"}
NO_COMPILER: Final = {"CC": "/bin/false", "CXX": "/bin/false"}


def main(arguments: Sequence[str]) -> int:
    """Check each version; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.install_check")
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    parser.add_argument("--plain", action="store_true", help="compile nothing")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ottla-install-") as folder:
        place = Path(folder)
        sdist = build_sdist(ROOT, place / "dist")
        is_good = [_check(version, sdist, place, options.plain) for version in options.versions]
    return 0 if all(is_good) else 1


def _check(version: str, sdist: Path, place: Path, is_plain: bool) -> bool:
    python = find_python(version)
    if python is None:
        _say(f"{version}: not on this machine")
        return True
    try:
        began_s = time.monotonic()
        builder = Environment(python, place / f"{version}-build")
        wheel = builder.build_wheel(sdist, place / f"{version}-dist", PLAIN if is_plain else {})
        _say(f"{version}: built {wheel.name} from {sdist.name}, {_since(began_s)}")
        _install(python, version, wheel, place / f"{version}-wheel", {}, is_compiled=not is_plain)
        bare = PLAIN if is_plain else NO_COMPILER
        _install(python, version, sdist, place / f"{version}-sdist", bare, is_compiled=False)
    except (CheckError, ReadmeError) as error:
        _say(f"{version}: FAILED: {error}")
        return False
    return True


def _install(
    python: Path,
    version: str,
    archive: Path,
    place: Path,
    settings: dict[str, str],
    *,
    is_compiled: bool,
) -> None:
    began_s = time.monotonic()
    environment = Environment(python, place)
    environment.install(f"{archive}[testing]", "confluent-kafka", settings=settings)
    environment.check_installed(is_compiled=is_compiled)
    workplace = place / "work"
    workplace.mkdir()
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    count = run_readme(page, environment.programs, workplace)
    environment.uninstall()
    _say(
        f"{version}: installed {archive.name} ({'compiled' if is_compiled else 'plain Python'}), "
        f"ran {count} commands of the README, uninstalled, {_since(began_s)}"
    )


def _since(began_s: float) -> str:
    return f"{time.monotonic() - began_s:.0f} s"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
