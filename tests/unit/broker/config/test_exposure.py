"""Listeners that are open to other machines: `broker.config.exposure`."""

import pytest
from structlog.testing import capture_logs

from broker.config.broker_config import BrokerConfig
from broker.config.exposure import (
    ANONYMOUS_MAY_ALL,
    ANY_AUTHORITY,
    BLANKS,
    OTHER_KIND,
    SEPARATOR,
    exposures,
)
from broker.daemon import read_config
from broker.errors import ConfigError
from trust.jaas import PLAIN_MODULE

MAP = "INNER:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,BOTH:SASL_SSL"
JAAS = f'{PLAIN_MODULE} required user_a="b" username="a" password="b";'


def settings_of(listeners: str, **more: str) -> dict[str, str]:
    return {
        "listeners": listeners,
        "advertised.listeners": listeners.replace("://:", "://h:").replace("0.0.0.0", "h"),
        "inter.broker.listener.name": listeners.partition(":")[0],
        "listener.security.protocol.map": MAP,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **{
            f"listener.name.{name}.plain.sasl.jaas.config": JAAS
            for name in ("sasl", "both")
            if name.upper() in listeners
        },
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def exposed(listeners: str, **more: str) -> list[str]:
    config = BrokerConfig.from_properties(settings_of(listeners, **more))
    found = exposures(config.network.listening, config.listener_security)
    return [f"{each.listener.name} {each.risk}" for each in found]


@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.0.0.1", "[::]", "kafka.example"])
def test_listeners_for_other_machines_need_authentication_and_encryption(host: str) -> None:
    [open_one] = exposed(f"INNER://{host}:1")
    assert open_one.startswith("INNER every client")
    [clear] = exposed(f"SASL://{host}:1")
    assert clear.startswith("SASL passwords")
    assert exposed(f"BOTH://{host}:1") == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "[::1]", "localhost", "LocalHost"])
def test_listeners_for_this_machine_are_not_exposed(host: str) -> None:
    assert exposed(f"INNER://{host}:1") == []


@pytest.mark.parametrize(("wanted", "count"), [("required", 0), ("requested", 1), ("none", 1)])
def test_certificates_authenticate_if_they_are_required(wanted: str, count: int) -> None:
    trusted = {"ssl_truststore_location": "/etc/ca.pem", "ssl_truststore_type": "PEM"}
    assert len(exposed("TLS://:1", ssl_client_auth=wanted, **trusted)) == count


def test_certificates_of_all_authorities_of_the_system_are_a_risk() -> None:
    [risk] = exposed("TLS://:1", ssl_client_auth="required")
    assert risk == f"TLS {ANY_AUTHORITY}"
    assert exposed("TLS://127.0.0.1:1", ssl_client_auth="required") == []


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("User:admin;User:CN=broker,O=Ottla", []),
        ("User:ANONYMOUS", [ANONYMOUS_MAY_ALL]),
        ("user:admin;Group:admins", [OTHER_KIND, OTHER_KIND]),
        ("User:admin,User:broker", [SEPARATOR]),
        ("User:admin, User:broker", [SEPARATOR]),
        ("User: admin", [BLANKS]),
        ("User:anonymous", []),
    ],
)
def test_super_users_that_are_probably_mistakes(text: str, reasons: list[str]) -> None:
    with capture_logs() as logs:
        read_config(None, [f"super.users={text}", "listeners=PLAINTEXT://127.0.0.1:1"])
    found = [each["reason"] for each in logs if each["event"] == "super_user.doubtful"]
    assert found == reasons


def test_start_warns_of_each_exposed_listener() -> None:
    pairs = settings_of("INNER://:1,BOTH://:2,SASL://10.0.0.1:3").items()
    with capture_logs() as logs:
        read_config(None, [f"{key}={value}" for key, value in pairs])
    assert [(each["event"], each["listener"], each["log_level"]) for each in logs] == [
        ("listener.exposed", "INNER://:1", "warning"),
        ("listener.exposed", "SASL://10.0.0.1:3", "warning"),
    ]


def test_open_listeners_are_refused_on_demand() -> None:
    for listeners in ("INNER://:1", "BOTH://:2,INNER://10.0.0.1:3"):
        with pytest.raises(ConfigError, match=r"listeners.*require\.authentication=true") as caught:
            exposed(listeners, require_authentication="true")
        assert "INNER" in str(caught.value)
    for listeners in ("INNER://127.0.0.1:1", "BOTH://:2", "SASL://:3,INNER://localhost:4"):
        exposed(listeners, require_authentication="true")
