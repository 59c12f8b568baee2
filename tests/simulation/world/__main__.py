"""Replay a world: `python -m tests.simulation.world SEED [SECONDS]`."""

import sys

from tests.simulation.world.test_world import FAULTS_S
from tests.simulation.world.world import replay

replay(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else FAULTS_S)
