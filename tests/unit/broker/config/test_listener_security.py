"""Prefixes of security keys: `broker.config.listener_security`."""

import pytest

from broker.config.broker_config import BrokerConfig, unknown_keys
from broker.errors import ConfigError
from trust.jaas import PLAIN_MODULE, SCRAM_MODULE

PLAIN = f'{PLAIN_MODULE} required username="broker" password="s3cret" user_broker="s3cret";'
SCRAM = f'{SCRAM_MODULE} required username="broker" password="s3cret";'
PROPERTIES = {
    "listeners": "INNER://127.0.0.1:1,OUTER://127.0.0.1:2,OPEN://127.0.0.1:3",
    "listener.security.protocol.map": "INNER:SASL_PLAINTEXT,OUTER:SASL_SSL,OPEN:SSL",
    "inter.broker.listener.name": "INNER",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "connections.max.reauth.ms": "1000",
    "ssl.client.auth": "required",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/general.pem",
    "listener.name.inner.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.outer.sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-512",
    "listener.name.outer.plain.sasl.jaas.config": PLAIN,
    "listener.name.outer.plain.connections.max.reauth.ms": "500",
    "listener.name.outer.ssl.keystore.location": "/outer.pem",
    "listener.name.outer.ssl.key.password": "s3cret",
}


def config(**changes: str | None) -> BrokerConfig:
    """Return the configuration after `changes`, whose names have _ for dots and __ for _."""
    named = {name.replace("__", "-").replace("_", "."): text for name, text in changes.items()}
    merged = {**PROPERTIES, **named}
    return BrokerConfig.from_properties(
        {name: text for name, text in merged.items() if text is not None}
    )


def test_a_prefix_wins_over_the_general_key() -> None:
    found = config().listener_security
    assert [each.protocol for each in found.values()] == ["SASL_PLAINTEXT", "SASL_SSL", "SSL"]
    assert [each.has_tls for each in found.values()] == [False, True, True]
    assert [each.has_sasl for each in found.values()] == [True, True, False]
    assert found["OUTER"].keys.ssl_keystore_location == "/outer.pem"
    assert found["OPEN"].keys.ssl_keystore_location == "/general.pem"
    assert list(found["INNER"].mechanisms) == ["SCRAM-SHA-256"]
    assert list(found["OUTER"].mechanisms) == ["PLAIN", "SCRAM-SHA-512"]
    assert found["OUTER"].mechanisms["PLAIN"].max_reauth_ms == 500
    assert found["OUTER"].mechanisms["SCRAM-SHA-512"].max_reauth_ms == 1000
    assert found["OUTER"].mechanisms["SCRAM-SHA-512"].module is None
    assert not found["OPEN"].mechanisms


def test_certificates_of_clients_are_asked_for_explicitly_where_sasl_authenticates() -> None:
    found = config().listener_security
    assert (found["OUTER"].keys.ssl_client_auth, found["OPEN"].keys.ssl_client_auth) == (
        "none",
        "required",
    )
    outer = config(listener_name_outer_ssl_client_auth="requested").listener_security["OUTER"]
    assert outer.keys.ssl_client_auth == "requested"


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("sasl.enabled.mechanisms", "GSSAPI", "GSSAPI is not served"),
        ("sasl.enabled.mechanisms", None, "GSSAPI is not served"),
        ("listener.name.outer.sasl.enabled.mechanisms", "EXTERNAL", "is not served"),
        (
            "listener.name.outer.plain.sasl.jaas.config",
            None,
            "must be set.* KafkaServer .* not read",
        ),
        ("listener.name.outer.plain.sasl.jaas.config", SCRAM, "must configure"),
        ("listener.name.other.ssl.key.password", "s3cret", "does not exist"),
        (
            "listener.name.OUTER.ssl.client.auth",
            "required",
            "spelled listener.name.outer.ssl.client.auth",
        ),
        (
            "listener.name.Outer.PLAIN.sasl.jaas.config",
            PLAIN,
            "spelled listener.name.outer.plain.sasl.jaas.config",
        ),
        (
            "listener.name.outer.OAUTHBEARER.sasl.oauthbearer.expected.audience",
            "a",
            "spelled listener.name.outer.oauthbearer.sasl.oauthbearer.expected.audience",
        ),
        ("listener.name.outer.ssl.client.auth", "often", "must be one of"),
        ("listener.name.outer.plain.connections.max.reauth.ms", "-1", "must be >= 0"),
        ("sasl.mechanism.inter.broker.protocol", "PLAIN", "one of the mechanisms of INNER"),
        (
            "listener.name.inner.scram-sha-256.sasl.jaas.config",
            f"{SCRAM_MODULE} required password=s3cret;",
            "must have username and password",
        ),
        (
            "listener.name.inner.scram-sha-256.sasl.jaas.config",
            None,
            "must have username.* KafkaServer .* not read",
        ),
    ],
)
def test_a_configuration_that_cannot_be_honoured_is_refused(
    key: str, value: str | None, rule: str
) -> None:
    merged = {**PROPERTIES, key: value}
    with pytest.raises(ConfigError, match=rule) as caught:
        BrokerConfig.from_properties({name: text for name, text in merged.items() if text})
    assert "password=" not in str(caught.value)


DOTTED = {
    "listeners": "CLIENT://127.0.0.1:1,CLIENT.A://127.0.0.1:2",
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CLIENT.A:SASL_SSL",
    "inter.broker.listener.name": "CLIENT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": PLAIN,
    "listener.name.client.plain.connections.max.reauth.ms": "7",
    "listener.name.client.a.connections.max.reauth.ms": "5",
    "listener.name.client.a.plain.sasl.jaas.config": PLAIN,
    "listener.name.client.a.ssl.keystore.location": "/a.pem",
    "listener.name.client.a.ssl.keystore.type": "PEM",
}


def test_the_name_of_a_listener_with_prefixed_keys_may_have_dots() -> None:
    found = BrokerConfig.from_properties(DOTTED).listener_security
    assert found["CLIENT"].mechanisms["PLAIN"].max_reauth_ms == 7
    assert found["CLIENT.A"].mechanisms["PLAIN"].max_reauth_ms == 5
    assert found["CLIENT"].keys.ssl_keystore_location == ""
    assert found["CLIENT.A"].keys.ssl_keystore_location == "/a.pem"
    assert unknown_keys(DOTTED) == []


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("listener.name.client.b.ssl.keystore.location", "does not exist"),
        ("listener.name.CLIENT.A.ssl.keystore.location", "spelled listener.name.client.a.ssl"),
        ("listener.name.client.a.PLAIN.sasl.jaas.config", "spelled listener.name.client.a.plain."),
    ],
)
def test_a_key_of_a_listener_with_dots_that_has_no_effect_is_refused(key: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule) as caught:
        BrokerConfig.from_properties({**DOTTED, key: PLAIN})
    assert caught.value.key == key


def test_the_controller_logs_in_at_the_control_plane_listener_too() -> None:
    with pytest.raises(ConfigError, match="one of the mechanisms of OUTER"):
        config(control_plane_listener_name="outer")
    config(control_plane_listener_name="open")


def test_no_representation_shows_a_secret() -> None:
    shown = repr(config()) + repr(config().listener_security)
    assert "INNER" in shown
    assert "s3cret" not in shown


def test_keys_with_prefixes_are_known() -> None:
    assert unknown_keys(PROPERTIES) == []
    assert unknown_keys({"listener.name.outer.max.connections": "1"}) != []
