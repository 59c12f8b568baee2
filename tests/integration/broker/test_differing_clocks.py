"""Brokers whose wall clocks differ by hours from each other and from the coordinator's."""

import os
import signal
from pathlib import Path

import pytest

from kafkawire.errors import ErrorCode
from tests.clocks import VARIABLE as CLOCKS
from tests.clocks import set_offset
from tests.integration.broker.broker_cluster import BrokerCluster
from tests.integration.broker.test_admin import SET, alter_incrementally
from tests.integration.broker.test_tools_at_nodes import Tool
from tests.integration.broker.wire import batch
from tests.integration.coordination.process import Coordinator, wait_until

HOUR_S = 3_600


def test_a_change_reaches_a_slow_broker_although_another_clock_is_ahead(
    coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = tmp_path / "clocks"
    clocks.mkdir()
    monkeypatch.setenv(CLOCKS, str(clocks))
    with BrokerCluster(tmp_path, coordinator.address) as cluster:
        cluster.start(1, 2)
        cluster.create_topic("t", [[2]])
        set_offset(clocks, cluster.brokers[1].pid, HOUR_S)
        os.kill(cluster.brokers[2].pid, signal.SIGSTOP)
        try:
            with cluster.wire(1) as wire:
                assert alter_incrementally(wire, "t", ("max.message.bytes", SET, "1000")) == 0
        finally:
            os.kill(cluster.brokers[2].pid, signal.SIGCONT)
        with cluster.wire(2) as wire:
            wait_until(
                lambda: (
                    wire.produce("t", batch(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
                )
            )
    assert Tool(coordinator.address).read("/config/changes/config_change_0000000000") is not None
