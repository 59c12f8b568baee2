"""Calls of brokers and clusters that do not run yet, and reserved ports."""

import socket

import pytest

import ottla.testing
from ottla.testing import Broker, Cluster, ServerError, StartError, StateError
from ottla.testing.reserved_port import ReservedPort


def test_a_broker_outside_its_block_says_how_to_start_it() -> None:
    with pytest.raises(StateError, match="use it with `with` or `async with`"):
        _ = Broker().bootstrap
    with pytest.raises(StateError, match="use it with `with` or `async with`"):
        Cluster().kill_coordinator()


@pytest.mark.parametrize("settings", [{"listeners": "PLAINTEXT://:0"}, {"broker.id": "7"}])
def test_keys_that_differ_between_brokers_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Broker(settings)
    with pytest.raises(ValueError, match=next(iter(settings))):
        Cluster(settings=settings)


def test_a_cluster_has_a_broker() -> None:
    with pytest.raises(ValueError, match="at least one broker, got 0"):
        Cluster(0)


def test_both_kinds_of_errors_are_errors_of_servers() -> None:
    assert issubclass(StartError, ServerError)
    assert issubclass(StateError, ServerError)


def test_only_public_names_are_found() -> None:
    assert set(ottla.testing.__all__) <= set(dir(ottla.testing))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = ottla.testing.Nothing


def test_a_server_can_listen_on_a_reserved_port_and_no_other_program_gets_it() -> None:
    port = ReservedPort()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port.number))
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port.number))
        server.listen()
        socket.create_connection(("127.0.0.1", port.number)).close()
    port.close()
