"""The ports of a cluster: `ottla.cli.up.cluster_resources`."""

import pytest

from ottla.cli.up import cluster_resources
from ottla.cli.up.cluster_resources import free_ports


def test_no_port_is_chosen_that_another_process_is_about_to_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = iter([15_001, 15_002, 15_002, 15_003])
    monkeypatch.setattr(cluster_resources.random, "randrange", lambda *_limits: next(drawn))
    monkeypatch.setattr(cluster_resources, "_listen", lambda _host, _port: None)
    assert free_ports(2, but=[15_001]) == [15_002, 15_003]
