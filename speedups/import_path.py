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
        sys.path[:] = ordered(sys.path, inherited, ROOT)
        others = [each for each in inherited if each != ROOT]
        os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *others])


def ordered(path: Sequence[str], inherited: Sequence[str], root: str) -> list[str]:
    """Return `path` with the directories of PYTHONPATH at its end, behind `root`.

    A checkout that PYTHONPATH names stays where it is: it may stand in for an installed one.
    """
    theirs = [each for each in path if each in inherited and each != root]
    ours = [each for each in path if each not in theirs]
    if root not in ours:
        ours.append(root)
    return [*ours, *theirs]
