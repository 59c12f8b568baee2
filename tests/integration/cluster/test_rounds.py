"""Faults in all processes under load: no acknowledged record is lost.

A few rounds run every day, and a hundred with `make soak`. OTTLA_SEED sets their seed.
"""

import os
import secrets
import sys
from pathlib import Path

import pytest

from tests.harness.cluster import ClusterProcesses
from tests.harness.nemesis import QUICK, rounds
from tests.harness.proof import prove
from tests.harness.rounds import play

EVERYDAY_SEED = 11
MANY = 100


async def test_few_rounds_of_faults_lose_no_record(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        outcome = await prove(cluster, play(rounds(EVERYDAY_SEED, len(QUICK), QUICK)))
    outcome.require_proof()


@pytest.mark.soak
async def test_hundred_rounds_of_faults_lose_no_record(tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_SEED", secrets.randbits(32)))
    count = int(os.environ.get("OTTLA_ROUNDS", MANY))
    sys.stderr.write(f"OTTLA_SEED={seed}\n")
    with ClusterProcesses(tmp_path) as cluster:
        outcome = await prove(cluster, play(rounds(seed, count)))
    outcome.require_proof()
