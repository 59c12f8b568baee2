"""The broker's configuration: `broker.config.broker_config`."""

from pathlib import Path

import pytest

from broker.config.broker_config import (
    DECLARED_KEYS,
    SERVER_KEYS,
    BrokerConfig,
    unknown_keys,
    value_text,
)
from broker.config.listener import Listener
from broker.errors import ConfigError
from kafkawire.records import TimestampType
from storage.config.log_config import LogConfig

ROOT = Path(__file__).resolve().parents[4]


def read(**properties: str) -> BrokerConfig:
    """Return the configuration; underscores in the keys stand for dots."""
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return BrokerConfig.from_properties(named)


def test_empty_properties_give_kafkas_defaults() -> None:
    config = read()
    assert config == BrokerConfig()
    assert (
        config.server.broker_id,
        config.server.num_partitions,
        config.network.queued_max_requests,
    ) == (-1, 1, 500)
    assert config.logs.log_directories == ("/tmp/kafka-logs",)
    assert (
        config.network.listening == config.network.advertised == (Listener("PLAINTEXT", "", 9092),)
    )
    assert config.topic_defaults == LogConfig()


def test_every_declared_default_obeys_its_own_rule() -> None:
    for declared in DECLARED_KEYS:
        if declared.default is not None:
            assert declared.key.parse(declared.key.default) == declared.default, declared.key.name


def test_every_key_has_documentation() -> None:
    assert all(key.documentation.endswith(".") for key in SERVER_KEYS.values())


def test_values_take_the_types_of_their_keys() -> None:
    config = read(
        auto_create_topics_enable="FALSE",
        num_partitions=" 3 ",
        connections_max_idle_ms="-1",
        log_cleaner_io_buffer_load_factor="0.5",
        broker_rack="a",
        log_retention_minutes="10",
        offsets_topic_replication_factor="1",
    )
    assert config.server.auto_create_topics_enable is False
    assert config.server.num_partitions == 3
    assert config.network.connections_max_idle_ms == -1
    assert config.logs.log_cleaner_io_buffer_load_factor == 0.5
    assert config.server.broker_rack == "a"
    assert config.logs.log_retention_minutes == 10
    assert config.groups.offsets_topic_replication_factor == 1


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num.partitions", "0", "num.partitions=0: must be >= 1"),
        ("num.partitions", "many", "num.partitions=many: must be of type int"),
        ("num.partitions", "2147483648", "num.partitions=2147483648: must be of type int"),
        ("delete.topic.enable", "yes", "delete.topic.enable=yes: must be of type boolean"),
        ("log.segment.bytes", "1", "log.segment.bytes=1: must be >= 14"),
        ("log.cleanup.policy", "shred", "log.cleanup.policy=shred: must be a list of compact"),
        ("log.roll.hours", "0", "log.roll.hours=0: must be >= 1"),
        ("log.retention.ms", "0", "log.retention.ms=0: must be >= 1, or negative"),
        ("log.retention.hours", "0", "log.retention.hours='0': must be >= 1, or negative"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "more than 1048576 for each of log.cleaner"),
        ("min.insync.replicas", "0", "min.insync.replicas=0: must be >= 1"),
        ("offsets.topic.compression.codec", "5", "within 0..4"),
        ("security.inter.broker.protocol", "TLS", "must be one of PLAINTEXT"),
        ("broker.id", "-2", "broker.id=-2: must be >= -1"),
        ("broker.id", "1001", "within -1..1000"),
        ("log.dirs", " , ", "at least one directory"),
        ("authorizer.class.name", "kafka.Acl", "empty or kafka.security.authorizer.AclAuthorizer"),
        ("super.users", "User:a;b", "a principal has the form User:name, but this is 'b'"),
        ("replica.socket.timeout.ms", "499", "at least replica.fetch.wait.max.ms"),
        ("replica.lag.time.max.ms", "499", "at least replica.fetch.wait.max.ms"),
        ("queued.max.request.bytes", "1000", "at least socket.request.max.bytes"),
        ("max.connections.per.ip", "0", "must be positive unless"),
        ("max.connections.per.ip.overrides", "a:b", "ADDRESS:LIMIT"),
        ("connections.max.idle.ms", "100", "must be below connections.max.idle.ms"),
        ("listeners", "PLAINTEXT", "NAME://HOST:PORT"),
        ("listeners", "CLIENT://:9093", "must be a name of listener.security.protocol.map"),
        ("advertised.listeners", "SSL://h:1", "must be one of the names in listeners"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:1", "no client can reach"),
        ("listeners", "PLAINTEXT://0.0.0.0:1", "no client can reach"),
        ("inter.broker.listener.name", "OTHER", "must be one of the advertised"),
        ("control.plane.listener.name", "PLAINTEXT", "differ from inter.broker"),
        ("listener.security.protocol.map", "A:B", "must map to one of"),
        ("inter.broker.protocol.version", "newest", "must be a version such as 3.9"),
        ("inter.broker.protocol.version", "4.0", "must be within 2.4..3.9"),
        ("zookeeper.connect", "host:port", "HOST:PORT,HOST:PORT/CHROOT"),
        ("zookeeper.connect", "", "HOST:PORT,HOST:PORT/CHROOT"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_rule(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({key: value})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_generated_id_may_be_forbidden() -> None:
    with pytest.raises(ConfigError, match=r"within 0\.\.2147483647"):
        read(broker_id_generation_enable="false")
    assert read(broker_id_generation_enable="false", broker_id="5000").server.broker_id == 5000


def test_overrides_per_address_make_the_common_limit_optional() -> None:
    config = read(max_connections_per_ip="0", max_connections_per_ip_overrides="10.0.0.1:5")
    assert config.network.connection_limits_by_ip == {"10.0.0.1": 5}


def test_an_override_applies_to_every_spelling_of_its_address() -> None:
    config = read(max_connections_per_ip_overrides="2001:DB8:0:0:0:0:0:1:5,10.0.0.1:6,a:7")
    assert config.network.connection_limits_by_ip == {"2001:db8::1": 5, "10.0.0.1": 6, "a": 7}


def test_named_listeners_need_protocols_and_one_for_brokers() -> None:
    config = read(
        listeners="CLIENT://:1,REPLICATION://:2,CONTROL://:3",
        listener_security_protocol_map="client:PLAINTEXT,replication:PLAINTEXT,control:PLAINTEXT",
        inter_broker_listener_name="replication",
        control_plane_listener_name="CONTROL",
        advertised_listeners="CLIENT://example.org:1,REPLICATION://a:1,CONTROL://a:1",
    )
    assert config.network.inter_broker_listener == "REPLICATION"
    assert [listener.host for listener in config.network.advertised] == ["example.org", "a", "a"]
    assert config.network.trusted_listeners == {"REPLICATION", "CONTROL"}


def test_a_listener_that_brokers_share_with_clients_is_not_trusted() -> None:
    assert read(listeners="PLAINTEXT://:1").network.trusted_listeners == frozenset()
    config = read(
        listeners="PLAINTEXT://:1,CONTROL://:3",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,control:PLAINTEXT",
        control_plane_listener_name="CONTROL",
        advertised_listeners="PLAINTEXT://a:1,CONTROL://a:3",
    )
    assert config.network.trusted_listeners == {"CONTROL"}


def test_inter_broker_listener_may_be_set_by_one_key_only() -> None:
    with pytest.raises(ConfigError, match="together with"):
        read(inter_broker_listener_name="PLAINTEXT", security_inter_broker_protocol="PLAINTEXT")


def test_several_log_directories_replace_the_single_one() -> None:
    assert read(log_dir="/a", log_dirs="/b, /c").logs.log_directories == ("/b", "/c")
    assert read(log_dir="/a").logs.log_directories == ("/a",)


def test_broker_keys_set_the_defaults_of_topics() -> None:
    defaults = read(
        log_segment_bytes="1000",
        log_retention_hours="2",
        log_roll_hours="3",
        log_roll_ms="5",
        message_max_bytes="77",
        compression_type="zstd",
        min_insync_replicas="2",
        log_message_timestamp_type="LogAppendTime",
        log_cleanup_policy="compact",
    ).topic_defaults
    assert defaults == LogConfig(
        segment_bytes=1000,
        retention_ms=2 * 3_600_000,
        segment_ms=5,
        max_message_bytes=77,
        compression_type="zstd",
        min_insync_replicas=2,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        cleanup_policy=frozenset({"compact"}),
    )


def test_topic_defaults_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms=5"):
        read(log_cleaner_min_compaction_lag_ms="5", log_cleaner_max_compaction_lag_ms="4")


def test_keys_take_precedence_over_their_aliases() -> None:
    assert BrokerConfig.from_properties({"node.id": "7"}).server.broker_id == 7
    assert BrokerConfig.from_properties({"broker.id": "8", "node.id": "7"}).server.broker_id == 8
    assert not BrokerConfig.from_properties(
        {"log.cleaner.enabled": "false"}
    ).logs.log_cleaner_enable


def test_unknown_keys_are_reported_and_ignored() -> None:
    properties = {"z.y": "1", "node.id": "1", "a.b": "2", "log.segment.bytes": "1000"}
    assert unknown_keys(properties) == ["a.b", "z.y"]
    assert BrokerConfig.from_properties(properties).server.broker_id == 1


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("num.partitions", "4"),
        ("broker.rack", None),
        ("delete.topic.enable", "true"),
        ("log.segment.bytes", "1073741824"),
    ],
)
def test_value_text_is_the_given_text_or_the_default(key: str, expected: str | None) -> None:
    assert value_text(read(num_partitions="4"), key) == expected


def test_inter_broker_protocol_version_is_two_numbers() -> None:
    assert BrokerConfig().replication.inter_broker_version == (3, 9)
    older = BrokerConfig.from_properties(
        {"inter.broker.protocol.version": "2.6-IV0", "zookeeper.connect": "a:1,b:2/kafka"}
    )
    assert older.replication.inter_broker_version == (2, 6)


def test_only_selectors_of_replicas_that_exist_are_accepted() -> None:
    assert read().replication.replica_selector_class is None
    for name in ("LeaderSelector", "RackAwareReplicaSelector"):
        chosen = f"org.apache.kafka.common.replica.{name}"
        assert read(replica_selector_class=chosen).replication.replica_selector_class == chosen
    with pytest.raises(ConfigError, match=r"^replica\.selector\.class.*must be empty"):
        read(replica_selector_class="com.example.NearestSelector")


def test_there_is_no_status_listener_by_default() -> None:
    assert read().server.status_listener is None
    assert read(metrics_listener="127.0.0.1:9").server.status_listener == Listener(
        "STATUS", "127.0.0.1", 9
    )


def test_every_key_has_an_effect_or_documents_that_it_has_none() -> None:
    sources = {
        path: path.read_text(encoding="utf-8")
        for package in ("broker", "controller", "storage")
        for path in (ROOT / package).rglob("*.py")
    }
    code = "".join(sources.values())
    # The declarations document a key under its name.
    texts = "".join(text for path, text in sources.items() if not path.name.endswith("_keys.py"))
    silent = [
        declared.key.name
        for declared in DECLARED_KEYS
        if f".{declared.field_name}" not in code
        and declared.key.name not in texts
        and not declared.key.documentation.startswith(("No effect", "Accepted for compat", "Must"))
    ]
    # These keys are for the coordinator of transactions, which does not exist yet.
    assert [name for name in silent if not name.startswith("transaction")] == []
