"""Processes of a cluster and their arguments: `ottla.cli.up.plan`."""

from pathlib import Path

import pytest

from ottla.cli.up.machine import Machine
from ottla.cli.up.plan import Child, ClusterPlan, listening_host, make_plan
from ottla.cli.up.secured import Files, Security

HERE = Path("/data")


def plan(ports: list[int], **overrides: str) -> ClusterPlan:
    settings = {key.replace("_", "."): value for key, value in overrides.items()}
    return make_plan(HERE, broker_ports=ports, coordinator_port=2181, overrides=settings)


def settings_of(child: Child) -> dict[str, str]:
    pairs = [word for word in child.arguments if "=" in word]
    return dict(pair.split("=", 1) for pair in pairs)


def test_each_broker_has_its_own_id_port_and_directory() -> None:
    made = plan([9092, 9093])
    assert [(each.name, each.directory, each.broker_id) for each in made.brokers] == [
        ("broker-1", HERE / "broker-1", 1),
        ("broker-2", HERE / "broker-2", 2),
    ]
    assert made.bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    second = settings_of(made.brokers[1])
    assert (second["broker.id"], second["listeners"], second["log.dirs"]) == (
        "2",
        "PLAINTEXT://127.0.0.1:9093",
        "/data/broker-2",
    )


def test_coordinator_starts_first_and_brokers_get_its_address() -> None:
    made = plan([9092])
    assert [each.name for each in made.children] == ["coordinator", "broker-1"]
    assert made.children[0].arguments[:3] == ("coordinator", "--listen", "127.0.0.1:2181")
    assert settings_of(made.brokers[0])["zookeeper.connect"] == "127.0.0.1:2181"


def test_plan_with_an_existing_coordinator_starts_none() -> None:
    made = plan([9092], zookeeper_connect="zoo:2181/kafka")
    assert made.coordinator is None
    assert [each.name for each in made.children] == ["broker-1"]
    assert made.connect == settings_of(made.brokers[0])["zookeeper.connect"] == "zoo:2181/kafka"


@pytest.mark.parametrize(
    ("brokers", "replicas", "least"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)]
)
def test_default_replication_factor_depends_on_the_number_of_brokers(
    brokers: int, replicas: int, least: int
) -> None:
    found = settings_of(plan([9092 + each for each in range(brokers)]).brokers[0])
    assert found["default.replication.factor"] == str(replicas)
    assert found["min.insync.replicas"] == str(least)


def test_overrides_take_precedence_over_the_defaults() -> None:
    found = settings_of(plan([9092], default_replication_factor="1", num_partitions="6").brokers[0])
    assert (found["default.replication.factor"], found["num.partitions"]) == ("1", "6")


def test_per_broker_keys_cannot_be_overridden() -> None:
    with pytest.raises(ValueError, match=r"broker\.id differs from broker to broker"):
        plan([9092], broker_id="7")


def test_ports_beyond_the_maximum_are_rejected() -> None:
    with pytest.raises(ValueError, match="choose a lower --port"):
        plan([65_535, 65_536])


def test_a_login_closes_the_coordinator_to_others_without_showing_its_password() -> None:
    path = HERE / "login.conf"
    made = make_plan(
        HERE, broker_ports=[9092], coordinator_port=2181, overrides={}, login_config=path
    )
    assert made.coordinator is not None
    closed = ("--login-config", "/data/login.conf", "--enforce-auth-schemes", "sasl")
    assert made.coordinator.arguments[-4:] == closed
    assert settings_of(made.brokers[0])["java.security.auth.login.config"] == "/data/login.conf"
    assert made.coordinator_settings["java.security.auth.login.config"] == "/data/login.conf"


def test_the_login_is_not_used_at_an_existing_coordinator() -> None:
    overrides = {"zookeeper.connect": "zoo:2181", "zookeeper.set.acl": "true"}
    made = make_plan(
        HERE, broker_ports=[1], coordinator_port=0, overrides=overrides, login_config=HERE
    )
    assert "java.security.auth.login.config" not in settings_of(made.brokers[0])
    assert made.coordinator_settings["zookeeper.set.acl"] == "true"


SECURITY = Security(
    Files(HERE / "security"), dict.fromkeys(("admin", "broker", "client"), "s3cret")
)


def secured(advertised_host: str | None = None, **overrides: str) -> ClusterPlan:
    settings = {key.replace("_", "."): value for key, value in overrides.items()}
    return make_plan(
        HERE,
        broker_ports=[9092, 9093],
        coordinator_port=2181,
        overrides=settings,
        security=SECURITY,
        advertised_host=advertised_host,
    )


def test_secrets_of_a_secured_cluster_are_in_files_only() -> None:
    made = secured(num_partitions="6")
    broker = made.brokers[1]
    assert broker.arguments == ("broker", "/data/security/broker-2.properties")
    assert broker.settings["listeners"] == "SASL_SSL://127.0.0.1:9093"
    assert broker.settings["ssl.keystore.location"] == "/data/security/broker-2.pem"
    assert (broker.settings["broker.id"], broker.settings["num.partitions"]) == ("2", "6")
    assert 'user_client="s3cret"' in "".join(broker.settings.values())
    assert "s3cret" not in repr(made)


@pytest.mark.parametrize(
    ("host", "bootstrap"),
    [("kafka.example", "kafka.example:9092"), ("2001:db8::1", "[2001:db8::1]:9092")],
)
def test_advertised_brokers_listen_on_all_interfaces(host: str, bootstrap: str) -> None:
    made = secured(host)
    settings = made.brokers[0].settings
    assert settings["listeners"] == "SASL_SSL://:9092"
    assert settings["advertised.listeners"] == f"SASL_SSL://{bootstrap}"
    assert made.bootstrap.split(",")[0] == bootstrap
    # The supervisor itself stays on this machine.
    assert made.brokers[0].address == "127.0.0.1:9092"


def test_overrides_may_not_undo_the_security() -> None:
    for key in ("super.users", "ssl.keystore.location", "listener.name.sasl_ssl.x"):
        with pytest.raises(ValueError, match=f"{key} belongs to the security"):
            make_plan(
                HERE, broker_ports=[1], coordinator_port=2, overrides={key: "x"}, security=SECURITY
            )


JOINED = Machine(host="10.0.0.2", coordinator="first.example:2181", generated_ids=(1001, 1007))


def test_machine_that_joins_has_generated_ids_and_its_address_as_rack() -> None:
    login = HERE / "login.conf"
    made = make_plan(
        HERE,
        broker_ports=[9092, 9093],
        coordinator_port=0,
        overrides={},
        login_config=login,
        security=SECURITY,
        advertised_host=JOINED.host,
        machine=JOINED,
    )
    assert (made.coordinator, made.connect, made.is_joined) == (None, "first.example:2181", True)
    assert [(each.name, each.broker_id) for each in made.brokers] == [
        ("broker-1", 1001),
        ("broker-2", 1007),
    ]
    settings = made.brokers[1].settings
    assert (settings["broker.id"], settings["broker.rack"]) == ("1007", "10.0.0.2")
    # The range of configured ids ends below.
    assert settings["broker.id.generation.enable"] == "false"
    assert settings["zookeeper.ssl.client.enable"] == "true"
    assert made.coordinator_settings["java.security.auth.login.config"] == str(login)
    assert made.bootstrap == "10.0.0.2:9092,10.0.0.2:9093"


def test_coordinator_of_several_machines_has_a_listener_that_demands_certificates() -> None:
    first = Machine(host="first.example", coordinator="first.example:2181")
    made = make_plan(
        HERE,
        broker_ports=[9092],
        coordinator_port=12181,
        overrides={},
        login_config=HERE / "login.conf",
        security=SECURITY,
        advertised_host=first.host,
        machine=first,
    )
    assert made.coordinator is not None
    words = made.coordinator.arguments
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert (options["--listen"], options["--tls-listen"]) == ("127.0.0.1:12181", "0.0.0.0:2181")
    assert options["--tls-ca"] == "/data/security/ca.pem"
    assert options["--tls-cert"] == options["--tls-key"] == "/data/security/coordinator.pem"
    assert options["--enforce-auth-schemes"] == "sasl"
    assert made.connect == "127.0.0.1:12181", "brokers of this machine need no TLS"
    assert not made.is_joined


def test_replicas_over_several_machines_do_not_depend_on_the_cores_of_one() -> None:
    first = Machine(host="127.0.0.1", coordinator="127.0.0.1:2181")
    made = make_plan(HERE, broker_ports=[9092], coordinator_port=2181, overrides={}, machine=first)
    found = settings_of(made.brokers[0])
    assert (found["default.replication.factor"], found["min.insync.replicas"]) == ("3", "2")


def test_own_coordinator_contradicts_that_of_several_machines() -> None:
    with pytest.raises(ValueError, match=r"zookeeper\.connect names a coordinator of your own"):
        make_plan(
            HERE,
            broker_ports=[1],
            coordinator_port=0,
            overrides={"zookeeper.connect": "zoo:2181"},
            machine=JOINED,
        )


@pytest.mark.parametrize(
    ("advertised", "listening"),
    [(None, "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("10.0.0.2", ""), ("kafka.example", "")],
)
def test_servers_listen_beyond_the_machine_only_if_others_shall_find_them(
    advertised: str | None, listening: str
) -> None:
    assert listening_host(advertised) == listening
