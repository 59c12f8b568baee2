"""A rolling restart of a cluster under load.

It runs with `make soak`, because the simulated clusters of `tests/simulation/world` stop brokers
every day. `tests/unit/controller/test_succession.py` lets the controller die within each change.
"""

import asyncio
from pathlib import Path

import pytest

from tests.harness.cluster import ClusterProcesses
from tests.harness.observer import Observer
from tests.harness.proof import prove


@pytest.mark.soak
async def test_rolling_restart_fails_no_send(tmp_path: Path) -> None:
    async def restart_all(cluster: ClusterProcesses, observer: Observer) -> None:
        for number in cluster.numbers:
            assert await asyncio.to_thread(cluster.stop, number) == 0
            await asyncio.to_thread(cluster.start_brokers, number)
            await observer.wait_until_whole(len(cluster.numbers))

    with ClusterProcesses(tmp_path) as cluster:
        outcome = await prove(cluster, restart_all)
    outcome.require_proof()
    assert outcome.failed == []
