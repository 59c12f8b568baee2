"""The client with our coordinator."""

import pytest

from tests.integration.coordination.behaviour import EXPERIMENTS, Experiment
from tests.integration.coordination.process import Coordinator


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.__name__)
async def test_against_our_coordinator(coordinator: Coordinator, experiment: Experiment) -> None:
    await experiment(coordinator.address, "/base")
