"""Has daemons import our packages, not a user's of the same names. Kind: edge.

Some of our packages have names that anybody's project may have: `storage`, `broker`, `analytics`.
A project in PYTHONPATH stands before what is installed.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[1])


def prefer_our_packages() -> None:
    """Find our packages first, here and in the Pythons that this process starts."""
    inherited = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if inherited:
        others = [each for each in inherited if each != ROOT]
        os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *others])
    # The interpreter has made its own path absolute, and with `-m` begins with the directory that
    # it was started in.
    started_in = [] if sys.flags.safe_path else [""]
    sys.path[:] = ordered(sys.path, _absolute([*inherited, *started_in]), ROOT)


def _absolute(directories: Sequence[str]) -> list[str]:
    try:
        # As the interpreter does it, which follows no link.
        return [os.path.abspath(each) for each in directories]  # noqa: PTH100
    except FileNotFoundError:
        # The working directory was removed: nothing is found there.
        return [each for each in directories if Path(each).is_absolute()]


def ordered(path: Sequence[str], projects: Sequence[str], root: str) -> list[str]:
    """Return `path` with the directories of projects at its end, behind `root`.

    A checkout that is among them stays where it is: it may stand in for an installed one.
    """
    theirs = [each for each in path if each in projects and each != root]
    ours = [each for each in path if each not in theirs]
    if root not in ours:
        ours.append(root)
    return [*ours, *theirs]
