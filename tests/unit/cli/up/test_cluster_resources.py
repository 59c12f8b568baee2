"""The ports of a cluster: `ottla.cli.up.cluster_resources`."""

import pytest

from ottla.cli.up.cluster_resources import free_ports

MODULE = "ottla.cli.up.cluster_resources"


def test_no_port_is_chosen_that_another_process_is_about_to_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = iter([15_001, 15_002, 15_002, 15_003])
    monkeypatch.setattr(f"{MODULE}.random.randrange", lambda *_limits: next(drawn))
    monkeypatch.setattr(f"{MODULE}._listen", lambda _host, _port: None)
    assert free_ports(2, but=[15_001]) == [15_002, 15_003]
