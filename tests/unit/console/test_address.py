"""Addresses of the console, and the names and origins that its requests may have."""

import pytest

from ottla.console.access.address import (
    ListenAddress,
    is_known_host,
    is_same_origin,
    parse_listen,
)


@pytest.mark.parametrize(
    ("text", "host", "is_loopback"),
    [
        ("127.0.0.1:9021", "127.0.0.1", True),
        ("localhost:9021", "127.0.0.1", True),
        ("127.9.8.7:9021", "127.9.8.7", True),
        ("[::1]:9021", "::1", True),
        ("0.0.0.0:9021", "0.0.0.0", False),
        ("[::]:9021", "::", False),
        ("192.0.2.7:9021", "192.0.2.7", False),
    ],
)
def test_addresses_are_parsed(text: str, host: str, is_loopback: bool) -> None:
    address = parse_listen(text)
    assert (address.host, address.port, address.is_loopback) == (host, 9021, is_loopback)


@pytest.mark.parametrize("text", ["", "9021", "host:9021", "127.0.0.1:", "127.0.0.1:x", "1.2:1"])
def test_other_texts_are_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form IP:PORT"):
        parse_listen(text)


def test_port_has_a_limit() -> None:
    with pytest.raises(ValueError, match="at most 65535, got 65536"):
        parse_listen("127.0.0.1:65536")


def test_address_has_the_form_in_which_it_was_given() -> None:
    assert str(ListenAddress("::1", 0).at_port(8)) == "[::1]:8"
    assert str(ListenAddress("127.0.0.1", 8)) == "127.0.0.1:8"


@pytest.mark.parametrize(
    ("header", "is_known"),
    [
        ("127.0.0.1:9021", True),
        ("localhost", True),
        ("LOCALHOST:1234", True),
        ("[::1]:9021", True),
        ("192.0.2.7", True),
        ("console.example:80", True),
        ("evil.example:9021", False),
        ("localhost.evil.example", False),
        ("evil.example@localhost", False),
        ("localhost/evil", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_only_known_names_are_answered(header: str, is_known: bool) -> None:
    assert is_known_host(header, ["Console.example"]) is is_known


@pytest.mark.parametrize(
    ("origin", "is_same"),
    [
        ("http://localhost:9021", True),
        ("https://LOCALHOST:9021", True),
        ("http://localhost:9022", False),
        ("http://evil.example", False),
        ("file://localhost:9021", False),
        ("http://[", False),
        ("null", False),
        ("", False),
        (None, False),
    ],
)
def test_only_pages_of_the_console_are_of_the_same_origin(
    origin: str | None, is_same: bool
) -> None:
    assert is_same_origin(origin, "localhost:9021") is is_same


def test_request_without_a_host_has_no_origin() -> None:
    assert not is_same_origin("http://", "")
