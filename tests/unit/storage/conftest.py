"""Directories and logs that the storage tests share."""

from pathlib import Path

import pytest


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """The path of a log dir."""
    return tmp_path / "one"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """The path of another log dir."""
    return tmp_path / "two"
