"""Faults in all processes under load: no acknowledged record is lost.

A hundred rounds run with `make soak`; OTTLA_SEED sets their seed. The simulated clusters of
`tests/simulation/world` meet the same faults every day.
"""

import os
import secrets
import sys
from pathlib import Path

import pytest

from tests.harness.cluster import ClusterProcesses
from tests.harness.nemesis import rounds
from tests.harness.proof import prove
from tests.harness.rounds import play

MANY = 100


@pytest.mark.soak
async def test_hundred_rounds_of_faults_lose_no_record(tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_SEED", secrets.randbits(32)))
    count = int(os.environ.get("OTTLA_ROUNDS", MANY))
    sys.stderr.write(f"OTTLA_SEED={seed}\n")
    with ClusterProcesses(tmp_path) as cluster:
        outcome = await prove(cluster, play(rounds(seed, count)))
    outcome.require_proof()
