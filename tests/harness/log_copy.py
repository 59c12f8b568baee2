"""Copies of a log directory, as docs/audits.md says. Edge: links to files in use."""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from logcheck.finding import Finding


def copy_live(source: Path, target: Path) -> None:
    """Copy the checkpoints, then link the files of each partition; again if a partition leaves."""
    while True:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        with suppress(FileNotFoundError):
            for path in source.glob("*-checkpoint"):
                shutil.copyfile(path, target / path.name)
            directories = _directories(source)
            for name in directories:
                _link(source / name, target / name)
            if directories == _directories(source):
                return


def _directories(log_directory: Path) -> set[str]:
    return {each.name for each in log_directory.iterdir() if each.is_dir()}


def _link(source: Path, target: Path) -> None:
    """Link the files in a directory, and again as long as the names change meanwhile.

    A cleaner renames several files, so that links from before and after fit together badly.
    """
    while True:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        before = _names(source)
        with suppress(FileNotFoundError):
            for name in before:
                os.link(source / name, target / name)
            if before == _names(source):
                return


def _names(directory: Path) -> dict[str, int]:
    return {each.name: each.inode() for each in os.scandir(directory)}


def keep(finding: Finding, roots: Iterable[Path], folder: Path) -> None:
    """Copy the replicas of the finding's partition, and the checkpoints beside them."""
    name = Path(finding.file).parent.name
    for root in roots:
        target = folder / root.name
        if (root / name).is_dir() and not (target / name).exists():
            shutil.copytree(root / name, target / name)
            for path in root.glob("*-checkpoint"):
                shutil.copyfile(path, target / path.name)
