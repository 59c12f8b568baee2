"""Audits the dependencies: `python -m scripts.audit [--online]`.

Offline, every package that the project requires, directly or not, must be pinned in
`constraints.txt` and installed in that version. With --online, pip-audit compares the pins with
known vulnerabilities; it has to be installed, and a package index has to answer.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CONSTRAINTS: Final = ROOT / "constraints.txt"
TIMEOUT_S: Final = 300
EXIT_FOUND: Final = 1
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA: Final = re.compile(r"""extra\s*==""")


def canonical(name: str) -> str:
    """Return the spelling of a name under which packages are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins_in(text: str) -> dict[str, str]:
    """Return the pinned version of each package."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.split("==") for line in lines if line)
    return {canonical(name): version for name, version in pairs}


def findings(
    required: Iterable[str], pins: Mapping[str, str], installed: Mapping[str, str]
) -> Iterator[str]:
    """Yield a sentence for each package that is not pinned, or has another version."""
    for name in sorted(required):
        if name not in pins:
            yield f"{name} is required, but not pinned in {CONSTRAINTS.name}"
        elif installed.get(name, pins[name]) != pins[name]:
            yield f"{name} {installed[name]} is installed, but {pins[name]} is pinned"


def requirements() -> set[str]:
    """Return the packages that the project requires, with all extras, directly or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lists = [
        project["build-system"]["requires"],
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
    ]
    left = [_name(text) for texts in lists for text in texts]
    found: set[str] = set()
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _required_by(name)
    return found


def installed_versions() -> dict[str, str]:
    """Return the version of each installed package."""
    return {canonical(each.name): each.version for each in metadata.distributions()}


def _required_by(name: str) -> list[str]:
    try:
        texts = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    # Of other systems and Python versions, or of extras that nobody asked for.
    here = [text for text in texts if ";" not in text]
    return [_name(text) for text in here if not _EXTRA.search(text)]


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    assert found is not None, f"{requirement!r} names no package"
    return canonical(found[0])


def compare_with_vulnerabilities() -> int:
    """Run pip-audit on the pins; return 1 if it finds a vulnerability, 0 if it cannot run."""
    program = shutil.which("pip-audit") or shutil.which(
        "pip-audit", path=str(Path(sys.executable).parent)
    )
    if program is None:
        _say("audit: known vulnerabilities were not checked: pip-audit is not installed")
        return 0
    command = [program, "--requirement", str(CONSTRAINTS), "--no-deps", "--disable-pip"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        _say("audit: known vulnerabilities were not checked: no answer in time")
        return 0
    if "Found" in done.stderr and done.returncode:
        _say(done.stdout + done.stderr)
        return EXIT_FOUND
    skipped = done.stdout.count("could not be audited")
    if done.returncode or skipped:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        reason = f"the index knows nothing about {skipped} packages" if skipped else reason
        _say(f"audit: known vulnerabilities were not checked: {reason}")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main() -> int:
    """Print the findings; return 1 if there are any."""
    pins = pins_in(CONSTRAINTS.read_text(encoding="utf-8"))
    found = list(findings(requirements(), pins, installed_versions()))
    for each in found:
        _say(f"audit: {each}")
    code = EXIT_FOUND if found else 0
    return compare_with_vulnerabilities() or code if "--online" in sys.argv[1:] else code


if __name__ == "__main__":
    sys.exit(main())
