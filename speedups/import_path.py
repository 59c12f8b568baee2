"""The places and names that a daemon imports from (edge).

Some of our packages have names that other projects may have too: `storage`, `broker`, `analytics`.
A project in PYTHONPATH precedes the installed packages.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[1])


def prefer_our_packages() -> None:
    """Find our packages first, in this process and in the Python processes that it starts."""
    inherited = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if inherited:
        others = [each for each in inherited if each != ROOT]
        os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *others])
    # The interpreter has made its path absolute. With `-m`, the path begins with the directory in
    # which it was started.
    started_in = [] if sys.flags.safe_path else [""]
    sys.path[:] = ordered(sys.path, _absolute([*inherited, *started_in]), ROOT)


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Let a module seem absent to imports in this block, unless it is imported already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def _absolute(directories: Sequence[str]) -> list[str]:
    try:
        # As in the interpreter, without following links.
        return [os.path.abspath(each) for each in directories]  # noqa: PTH100
    except FileNotFoundError:
        # The working directory was removed, so imports cannot find anything there.
        return [each for each in directories if Path(each).is_absolute()]


def ordered(path: Sequence[str], projects: Sequence[str], root: str) -> list[str]:
    """Return `path` with the directories of projects moved to the end, behind `root`.

    A checkout of Ottla among them keeps its place, because it may replace an installed one.
    """
    theirs = [each for each in path if each in projects and each != root]
    ours = [each for each in path if each not in theirs]
    if root not in ours:
        ours.append(root)
    return [*ours, *theirs]
