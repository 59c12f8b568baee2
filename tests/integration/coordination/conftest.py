"""Fixtures: coordinators that are stopped after the test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.integration.coordination.process import Coordinator, kill_all


class StartCoordinator(Protocol):
    """Starts a coordinator and returns it once it is ready."""

    def __call__(self, *options: str) -> Coordinator:
        """Start with these command-line options."""


@pytest.fixture
def start_coordinator(tmp_path: Path) -> Iterator[StartCoordinator]:
    started: list[Coordinator] = []

    def start(*options: str) -> Coordinator:
        started.append(Coordinator(tmp_path / f"data-{len(started)}", *options))
        return started[-1]

    yield start
    kill_all(started)


@pytest.fixture
def coordinator(start_coordinator: StartCoordinator) -> Coordinator:
    return start_coordinator()
