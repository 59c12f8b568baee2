"""Keys that prevent the start, because they must not be ignored: `broker.config.unserved_keys`."""

from pathlib import Path

import pytest

from broker.config.unserved_keys import check_served_keys
from broker.daemon import read_config
from broker.errors import ConfigError

KRAFT = {"process.roles": "broker", "node.id": "1", "controller.quorum.voters": "1@h:9093"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.zookeeper.url", "h:2181"),
        ("controller.quorum.voters", "1@h:9093"),
        ("password.encoder.secret", "s3cret"),
        ("principal.builder.class", "org.example.Builder"),
        ("process.roles", "broker,controller"),
        ("remote.log.storage.system.enable", "true"),
        ("listener.name.inner.sasl.kerberos.service.name", "s3cret"),
        ("listener.name.inner.plain.sasl.server.callback.handler.class", "s3cret"),
        ("listener.name.client.a.plain.sasl.server.callback.handler.class", "s3cret"),
        ("sasl.oauthbearer.header.urlencode", "s3cret"),
        ("sasl.server.callback.handler.class", "s3cret"),
        ("ssl.engine.factory.class", "s3cret"),
        ("zookeeper.metadata.migration.enable", "true"),
        ("zookeeper.ssl.cipher.suites", "s3cret"),
        ("zookeeper.ssl.crl.enable", "true"),
        ("zookeeper.ssl.ocsp.enable", "TRUE"),
    ],
)
def test_a_key_that_cannot_be_honoured_refuses_the_start_without_its_value(
    key: str, value: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(None, [f"{key}={value}"])
    assert caught.value.key == key
    assert str(caught.value).startswith(f"{key}: is ")
    assert value not in str(caught.value).removeprefix(key)


def test_a_file_of_a_broker_without_zookeeper_is_refused_by_its_key(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in KRAFT.items()))
    with pytest.raises(ConfigError, match="without ZooKeeper"):
        read_config(file, [])


def test_a_login_module_without_the_prefix_of_its_mechanism_is_refused() -> None:
    for key in ("sasl.jaas.config", "listener.name.inner.sasl.jaas.config"):
        with pytest.raises(ConfigError, match="must have the prefix") as caught:
            check_served_keys({key: "s3cret"})
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("process.roles", ""),
        ("listener.name.inner.plain.sasl.jaas.config", "x"),
        ("listener.name.inner.ssl.keystore.password", "x"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-256"),
        ("ssl.client.auth", "required"),
        ("ssl.keymanager.algorithm", "SunX509"),
        ("ssl.keystore.location", " "),
        ("zookeeper.set.acl", "true"),
        ("zookeeper.ssl.crl.enable", "False"),
        ("zookeeper.ssl.client.enable", "true"),
        ("zookeeper.ssl.keystore.password", "x"),
        ("listener.name.inner.ssl.client.auth", ""),
        ("listener.name.inner.max.connections", "7"),
        ("node.id", "7"),
        ("somebody.elses.key", "x"),
    ],
)
def test_values_that_match_the_brokers_behaviour_pass(key: str, value: str) -> None:
    check_served_keys({key: value})
