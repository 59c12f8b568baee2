"""Settings of a secured cluster: `ottla.cli.up.secured`."""

from pathlib import Path

import pytest

from ottla.cli.up.secured import (
    Files,
    Security,
    broker_settings,
    client_rights,
    client_settings,
    hosts_of,
    is_host,
    librdkafka_settings,
)
from trust.jaas import parse_jaas

PASSWORDS = {"admin": 'a"\\', "broker": "b", "client": "s3cret"}
SECURITY = Security(Files(Path("/data/security")), PASSWORDS)


def test_brokers_know_three_users_and_log_in_as_one_of_them() -> None:
    settings = broker_settings(SECURITY, "broker-1")
    module = parse_jaas(settings["listener.name.sasl_ssl.plain.sasl.jaas.config"], "PLAIN")
    assert module.passwords == PASSWORDS
    assert module.login == ("broker", "b")
    assert settings["super.users"] == "User:admin;User:broker"
    assert "s3cret" not in repr(SECURITY)


def test_clients_of_each_library_get_their_own_keys() -> None:
    settings = client_settings(SECURITY, "admin", "h:1")
    assert parse_jaas(settings["sasl.jaas.config"], "PLAIN").login == ("admin", 'a"\\')
    assert settings["ssl.truststore.location"] == "/data/security/ca.pem"
    other = librdkafka_settings(SECURITY, "client", "h:1")
    assert (other["sasl.username"], other["sasl.password"]) == ("client", "s3cret")
    assert SECURITY.login("client")["sasl_plain_password"] == "s3cret"
    names = {SECURITY.files.granted.name, SECURITY.files.librdkafka("client").name}
    assert names == {"granted", "client.librdkafka.properties"}
    copied = [path.name for path in SECURITY.files.copied]
    assert copied == ["authority.pem", "passwords.json"]


def test_client_may_use_topics_and_groups_only() -> None:
    rights = {f"{pattern} {entry}" for pattern, entry in client_rights()}
    assert len(rights) == 9
    assert not any("Cluster" in each or "Delete" in each or "Alter" in each for each in rights)


def test_certificates_are_for_this_machine_and_the_advertised_host() -> None:
    local = ("localhost", "127.0.0.1", "::1")
    assert hosts_of(None) == hosts_of("localhost") == local
    assert hosts_of("kafka.example") == (*local, "kafka.example")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka.example", True),
        ("10.0.0.1", True),
        ("2001:db8::1", True),
        ("a" * 63 + ".b", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("-a", False),
        ("a..b", False),
        ("a,b", False),
        ("a:9092", False),
        ("a" * 64, False),
        (".".join(["a" * 60] * 5), False),
    ],
)
def test_hosts_are_names_or_addresses(text: str, expected: bool) -> None:
    assert is_host(text) == expected
