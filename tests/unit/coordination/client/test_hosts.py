"""Connect strings, and the order in which servers are tried."""

from random import Random

import pytest

from coordination.client.hosts import Host, Rotation, parse_connect_string


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("a:1", (Host("a", 1),), ""),
        ("a", (Host("a", 2181),), ""),
        ("a:1,b:2/kafka/x", (Host("a", 1), Host("b", 2)), "/kafka/x"),
        ("a:1/", (Host("a", 1),), ""),
        ("[::1]:5, b", (Host("::1", 5), Host("b", 2181)), ""),
    ],
)
def test_a_connect_string_is_parsed(text: str, hosts: tuple[Host, ...], chroot: str) -> None:
    parsed = parse_connect_string(text)
    assert (parsed.hosts, parsed.chroot) == (hosts, chroot)


@pytest.mark.parametrize("text", ["", "/kafka", "a:x", "a:70000", "a:1//x"])
def test_an_invalid_connect_string_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"server in|is not a"):
        parse_connect_string(text)


def test_every_server_is_tried_before_a_back_off() -> None:
    hosts = [Host(name, 1) for name in "abc"]
    rotation = Rotation(hosts, Random(1))
    first = [rotation.next() for _ in range(3)]
    assert {attempt.host for attempt in first} == set(hosts)
    assert [attempt.delay_ms for attempt in first] == [0, 0, 0]
    second = [rotation.next() for _ in range(3)]
    assert 10 <= second[0].delay_ms <= 20
    assert [attempt.delay_ms for attempt in second[1:]] == [0, 0]
    rotation.on_connected()
    assert rotation.next().delay_ms == 0


def test_the_back_off_grows_to_one_second() -> None:
    rotation = Rotation([Host("a", 1)], Random(1))
    delays = [rotation.next().delay_ms for _ in range(40)]
    assert max(delays) <= 1000
    assert min(delays[-10:]) >= 500


def test_clients_spread_over_the_servers() -> None:
    hosts = [Host(name, 1) for name in "abc"]
    chosen = {Rotation(hosts, Random(seed)).next().host for seed in range(20)}
    assert chosen == set(hosts)


def test_a_rotation_has_the_number_of_servers() -> None:
    assert Rotation([Host("a", 1), Host("b", 1)], Random(1)).host_count == 2


@pytest.mark.parametrize(
    ("text", "path", "server_path"),
    [
        ("a", "/n", "/n"),
        ("a/kafka", "/n", "/kafka/n"),
        ("a/kafka", "/", "/kafka"),
    ],
)
def test_paths_are_relative_to_the_chroot(text: str, path: str, server_path: str) -> None:
    servers = parse_connect_string(text)
    assert servers.to_server(path) == server_path
    assert servers.from_server(server_path) == path
