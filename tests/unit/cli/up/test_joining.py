"""Addresses of machines that join: `ottla.cli.up.joining`, and options: `preparing`."""

from pathlib import Path

import pytest

from ottla.cli.failure import CommandError
from ottla.cli.up.joining import coordinator_address, own_address
from ottla.cli.up.machine import MAX_BROKERS
from ottla.cli.up.preparing import DEFAULT_BROKERS, Wanted, check_options, core_count


def wanted(
    *,
    directory: str = "/data",
    is_secure: bool = False,
    advertised_host: str | None = None,
    is_joinable: bool = False,
    join: str | None = None,
    coordinator_port: int = 0,
) -> Wanted:
    return Wanted(
        directory=Path(directory),
        broker_count=None,
        port=9092,
        coordinator_port=coordinator_port,
        overrides={},
        is_secure=is_secure,
        advertised_host=advertised_host,
        is_joinable=is_joinable,
        join=join,
        is_json=False,
    )


def test_default_is_a_broker_per_core_over_several_machines() -> None:
    assert wanted().brokers == DEFAULT_BROKERS
    expected = min(core_count(), MAX_BROKERS)
    assert wanted(join="first:2181").brokers == expected
    assert wanted(is_joinable=True).brokers == expected


@pytest.mark.parametrize(
    "contradiction",
    [
        wanted(is_joinable=True, advertised_host="127.0.0.1", join="127.0.0.1:2181"),
        wanted(is_joinable=True),
        wanted(join="127.0.0.1:2181", coordinator_port=2181),
        wanted(is_joinable=True, advertised_host="10.0.0.1"),
        wanted(is_secure=True, advertised_host="0.0.0.0"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(contradiction: Wanted) -> None:
    with pytest.raises(CommandError) as refused:
        check_options(contradiction)
    assert refused.value.exit_code == 2


def test_a_directory_with_a_comma_is_wrong_usage() -> None:
    check_options(wanted(directory="/data/a b ü"))
    with pytest.raises(CommandError, match="a comma, got /data/a,b: choose") as refused:
        check_options(wanted(directory="/data/a,b"))
    assert refused.value.exit_code == 2


def test_options_of_both_kinds_of_machines_are_accepted() -> None:
    check_options(wanted(is_joinable=True, advertised_host="127.0.0.2"))
    check_options(wanted(is_secure=True, is_joinable=True, advertised_host="first.example"))
    check_options(wanted(is_secure=True, join="first.example:2181"))


def test_coordinator_is_one_server_with_an_address() -> None:
    assert coordinator_address("127.0.0.1") == "127.0.0.1:2181"
    assert coordinator_address("[::1]:12181") == "[::1]:12181"
    for text, reason in (
        ("127.0.0.1:2181,127.0.0.2:2181", "must be one HOST:PORT"),
        ("127.0.0.1:2181/kafka", "must be one HOST:PORT"),
        ("127.0.0.1:x", "is not a port"),
        ("nowhere.invalid:2181", "host nowhere.invalid cannot be resolved"),
    ):
        with pytest.raises(CommandError, match=reason):
            coordinator_address(text)


def test_address_of_a_machine_is_that_of_its_packets_to_the_coordinator() -> None:
    assert own_address("127.0.0.1:2181") == "127.0.0.1"
