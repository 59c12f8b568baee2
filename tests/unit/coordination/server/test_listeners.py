"""Limits on connections: `coordination.server.listeners`."""

from coordination.server.listeners import UNLIMITED, Admission


def test_connections_per_address_are_limited() -> None:
    admission = Admission(100, 2)
    assert [admission.admit("10.0.0.1") for _ in range(2)] == [None, None]
    assert admission.admit("10.0.0.1") == "more than 2 connections from 10.0.0.1"
    assert admission.admit("10.0.0.2") is None
    admission.leave("10.0.0.1")
    assert admission.admit("10.0.0.1") is None


def test_the_total_of_connections_is_limited() -> None:
    admission = Admission(2, UNLIMITED)
    for _ in range(2):
        assert admission.admit("10.0.0.1") is None
    assert admission.admit("10.0.0.2") == "more than 2 connections"
    admission.leave("10.0.0.1")
    assert admission.admit("10.0.0.2") is None


def test_an_address_without_connections_is_forgotten() -> None:
    admission = Admission(2, UNLIMITED)
    assert admission.admit("10.0.0.1") is None
    admission.leave("10.0.0.1")
    assert not admission._counts
