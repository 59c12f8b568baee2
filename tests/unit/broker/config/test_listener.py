"""The text form of listeners: `broker.config.listener`."""

import pytest

from broker.config.listener import (
    Listener,
    check_protocols,
    parse_listeners,
    parse_map,
    parse_protocol_map,
)
from broker.errors import ConfigError


def parse(text: str, *, distinct_ports: bool = True) -> tuple[Listener, ...]:
    return parse_listeners("listeners", text, distinct_ports=distinct_ports)


def test_listeners_have_a_name_a_host_and_a_port() -> None:
    assert parse("plaintext://:9092, CLIENT://host-1.example:0") == (
        Listener("PLAINTEXT", "", 9092),
        Listener("CLIENT", "host-1.example", 0),
    )


def test_str_of_a_listener_is_the_parsed_text() -> None:
    for text in ("PLAINTEXT://:9092", "A://[::1]:0", "B://10.0.0.1:65535"):
        assert str(parse(text)[0]) == text


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "at least one listener"),
        ("9092", "NAME://HOST:PORT"),
        ("A://host", "NAME://HOST:PORT"),
        ("A://host:x", "NAME://HOST:PORT"),
        ("A://host:65536", "port within"),
        ("A://host:-1", "port within"),
        ("A://:1,a://:2", "a distinct name"),
        ("A://:1,B://:1", "a distinct port"),
        ("A://10.0.0.1:1,B://10.0.0.2:1", "a distinct port"),
        ("A://10.0.0.1:1,B://[::1]:1,C://:1", "a distinct port"),
    ],
)
def test_a_malformed_list_of_listeners_is_refused(text: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        parse(text)


def test_two_address_families_may_share_a_port() -> None:
    assert len(parse("A://127.0.0.1:1,B://[::1]:1")) == 2


def test_port_zero_and_advertised_listeners_may_repeat_a_port() -> None:
    assert len(parse("A://:0,B://:0")) == 2
    assert len(parse("A://h:1,B://h:1", distinct_ports=False)) == 2


def test_a_protocol_map_ignores_case() -> None:
    assert parse_protocol_map("map", "client:plaintext, B:SSL") == {
        "CLIENT": "PLAINTEXT",
        "B": "SSL",
    }


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="not TELNET"):
        parse_protocol_map("map", "A:TELNET")


def test_the_value_in_a_map_follows_the_last_colon() -> None:
    assert parse_map("map", "::1:5,10.0.0.1:7,") == {"::1": "5", "10.0.0.1": "7"}


def test_a_map_needs_colons() -> None:
    with pytest.raises(ConfigError, match="NAME:VALUE"):
        parse_map("map", "a:1,b")


def test_a_listener_needs_a_protocol() -> None:
    check_protocols("listeners", [Listener("A", "", 1)], {"A": "SASL_SSL"})
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
        check_protocols("listeners", [Listener("A", "", 1)], {"B": "SSL"})
