"""The ports of a cluster: `ottla.cli.up.cluster_resources`."""

import socket
import subprocess
import sys
import textwrap

import pytest

from ottla.cli.up.cluster_resources import require_free, reserve_ports
from ottla.cli.up.plan import HOST

MODULE = "ottla.cli.up.cluster_resources"


def test_no_port_is_chosen_that_another_process_is_about_to_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = iter([15_001, 15_002, 15_002, 15_003])
    monkeypatch.setattr(f"{MODULE}.random.randrange", lambda *_limits: next(drawn))
    monkeypatch.setattr(f"{MODULE}._reserve", lambda _host, _port: True)
    assert reserve_ports(2, but=[15_001]) == [15_002, 15_003]


@pytest.mark.parametrize("host", ["", HOST])
def test_servers_listen_on_a_reserved_port_that_no_other_cluster_chooses(
    host: str,
) -> None:
    [port] = reserve_ports(1, host)
    require_free([port], host)
    code = f"""
        import random
        from ottla.cli.up.cluster_resources import reserve_ports
        drawn = iter([{port}])
        random.randrange = lambda *_limits: next(drawn)
        reserve_ports(1, {host!r})
    """
    other = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    # It had to draw a second time.
    assert "StopIteration" in other.stderr
    with socket.create_server((HOST, port)) as server:
        assert server.getsockname()[1] == port


def test_the_port_of_a_server_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as server:
        drawn = iter([server.getsockname()[1]])
        monkeypatch.setattr(f"{MODULE}.random.randrange", lambda *_limits: next(drawn))
        with pytest.raises(StopIteration):
            reserve_ports(1)
