"""Topic configs: names, types, ranges, defaults, and their effect on `LogConfig`."""

import pytest

from kafkawire.records import TimestampType
from storage.config.config_key import LONG_MAX
from storage.config.log_config import (
    TOPIC_CONFIG_KEYS,
    ConfigType,
    LogConfig,
    check_topic_config,
    topic_defaults,
    unknown_topic_configs,
)

KAFKA_3_9_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.downconversion.enable": "true",
    "message.format.version": "3.0-IV1",
    "message.timestamp.after.max.ms": "9223372036854775807",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.difference.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def test_topic_config_table_matches_kafka() -> None:
    defaults = {name: key.default for name, key in TOPIC_CONFIG_KEYS.items()}
    assert defaults == KAFKA_3_9_DEFAULTS


def test_every_config_has_documentation_and_accepts_its_default() -> None:
    for name, key in TOPIC_CONFIG_KEYS.items():
        assert key.name == name
        assert key.documentation.endswith(".")
        key.parse(key.default)


def test_the_dataclass_has_the_tables_defaults() -> None:
    assert LogConfig.from_properties(KAFKA_3_9_DEFAULTS) == LogConfig()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("segment.bytes", "13"),
        ("segment.bytes", "2147483648"),
        ("segment.bytes", "1e6"),
        ("segment.ms", "0"),
        ("segment.jitter.ms", "-1"),
        ("segment.index.bytes", "3"),
        ("index.interval.bytes", "-1"),
        ("retention.ms", "-2"),
        ("retention.ms", "9223372036854775808"),
        ("max.message.bytes", "1_000"),
        ("min.insync.replicas", "0"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "half"),
        ("cleanup.policy", "delete,shrink"),
        ("compression.type", "lzma"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("message.timestamp.type", "createtime"),
        ("preallocate", "yes"),
        ("leader.replication.throttled.replicas", "0:1,x"),
        ("leader.replication.throttled.replicas", "*,0:1"),
    ],
)
def test_an_illegal_value_is_refused_with_key_value_and_rule(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        LogConfig.from_properties({name: text})
    assert name in str(caught.value)
    assert text in str(caught.value)
    with pytest.raises(ValueError, match="must be"):
        check_topic_config(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("segment.bytes", " 14 "),
        ("compression.gzip.level", "-1"),
        ("compression.zstd.level", "-131072"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1, 2:3"),
        ("preallocate", "TRUE"),
        ("cleanup.policy", "Compact , delete"),
        ("cleanup.policy", ""),
        ("retention.bytes", "-5"),
    ],
)
def test_a_legal_value_is_taken(name: str, text: str) -> None:
    check_topic_config(name, text)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"segment\.byte: unknown"):
        LogConfig.from_properties({"segment.byte": "14"})
    with pytest.raises(ValueError, match="unknown topic config"):
        check_topic_config("x", "")
    assert unknown_topic_configs(["x", "segment.ms", "a"]) == ["a", "x"]


def test_an_illegal_stored_override_leaves_the_others_in_force() -> None:
    stored = {
        "segment.bytes": "much",
        "cleanup.policy": "compact",
        "confluent.tier.enable": "true",
        "retention.ms": "-1",
    }
    config, errors = LogConfig.from_stored(stored, LogConfig(segment_bytes=1000))
    assert config == LogConfig(
        segment_bytes=1000, cleanup_policy=frozenset({"compact"}), retention_ms=None
    )
    assert [error.partition("=")[0].partition(":")[0] for error in errors] == [
        "segment.bytes",
        "confluent.tier.enable",
    ]


@pytest.mark.parametrize(
    "illegal", [{"retention.ms": "forever"}, {"retention.bytes": ""}, {"cleanup.policy": "keep"}]
)
def test_an_illegal_stored_retention_deletes_nothing(illegal: dict[str, str]) -> None:
    config, errors = LogConfig.from_stored({**illegal, "segment.bytes": "2000"}, LogConfig())
    assert len(errors) == 1
    assert config == LogConfig(segment_bytes=2000, retention_ms=None, retention_bytes=None)


def test_properties_become_typed_fields() -> None:
    config = LogConfig.from_properties(
        {
            "cleanup.policy": "Compact,delete",
            "retention.ms": "-1",
            "retention.bytes": "1000",
            "message.timestamp.type": "LogAppendTime",
            "preallocate": "true",
            "leader.replication.throttled.replicas": "0:1,2:3",
            "remote.storage.enable": "true",
        }
    )
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.is_compacted
    assert (config.retention_ms, config.retention_bytes) == (None, 1000)
    assert config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    assert config.preallocate
    assert config.leader_replication_throttled_replicas == ("0:1", "2:3")


def test_overrides_are_laid_over_the_brokers_defaults() -> None:
    defaults = LogConfig(segment_bytes=500, retention_ms=None)
    config = LogConfig.from_properties({"segment.bytes": "600"}, defaults)
    assert (config.segment_bytes, config.retention_ms) == (600, None)


def test_deprecated_two_sided_limit_applies_to_unset_one_sided_limits() -> None:
    name = "message.timestamp.difference.max.ms"
    config = LogConfig.from_properties({name: "7", "message.timestamp.after.max.ms": "9"})
    assert config.message_timestamp_before_max_ms == 7
    assert config.message_timestamp_after_max_ms == 9
    assert LogConfig.from_properties({name: str(LONG_MAX)}) == LogConfig()


BEFORE, DIFFERENCE = "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms"


@pytest.mark.parametrize(
    ("of_brokers", "of_topic", "before_ms"),
    [
        pytest.param({}, {DIFFERENCE: "7"}, 7, id="no other limit"),
        pytest.param({BEFORE: "5"}, {DIFFERENCE: "7"}, 5, id="limit of the brokers"),
        pytest.param({DIFFERENCE: "5"}, {DIFFERENCE: "7"}, 5, id="two-sided limit of the brokers"),
        pytest.param({DIFFERENCE: "5"}, {BEFORE: str(LONG_MAX)}, 5, id="default of the topic"),
        pytest.param({DIFFERENCE: "5"}, {BEFORE: "7"}, 7, id="limit of the topic"),
    ],
)
def test_deprecated_limit_replaces_only_a_default_as_in_kafka(
    of_brokers: dict[str, str], of_topic: dict[str, str], before_ms: int
) -> None:
    properties = {f"log.{name}": text for name, text in of_brokers.items()}
    defaults = LogConfig.from_server_properties(properties)
    config = LogConfig.from_properties(of_topic, defaults)
    assert config.message_timestamp_before_max_ms == before_ms


def test_deprecated_limit_replaces_no_stored_one_beside_an_illegal_override() -> None:
    stored = {"segment.bytes": "much", BEFORE: "5", DIFFERENCE: "7"}
    config, errors = LogConfig.from_stored(stored, LogConfig())
    assert len(errors) == 1
    assert config.message_timestamp_before_max_ms == 5
    assert config.message_timestamp_after_max_ms == 7


@pytest.mark.parametrize(
    "fields",
    [
        {"segment_bytes": 13},
        {"index_interval_bytes": -1},
        {"min_compaction_lag_ms": 5, "max_compaction_lag_ms": 4},
    ],
)
def test_a_config_that_contradicts_itself_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        LogConfig(**fields)  # type: ignore[arg-type]


def test_broker_properties_set_the_defaults_of_topics() -> None:
    assert topic_defaults(
        {
            "log.roll.hours": "2",
            "log.retention.hours": "1",
            "log.retention.minutes": "5",
            "log.retention.bytes": "-1",
            "message.max.bytes": "77",
            "log.cleaner.min.cleanable.ratio": "0.1",
            "broker.id": "1",
        }
    ) == {
        "segment.ms": "7200000",
        "retention.ms": "300000",
        "retention.bytes": "-1",
        "max.message.bytes": "77",
        "min.cleanable.dirty.ratio": "0.1",
    }
    with pytest.raises(ValueError, match=r"log\.roll\.hours='soon'"):
        topic_defaults({"log.roll.hours": "soon"})


@pytest.mark.parametrize(
    "name", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
)
def test_retention_of_a_broker_is_positive_or_unlimited(name: str) -> None:
    """Source: KafkaConfig.logRetentionTimeMillis and validateValues of Kafka 3.9."""
    for unlimited in ("-1", "-5"):
        assert LogConfig.from_server_properties({name: unlimited}).retention_ms is None
    with pytest.raises(ValueError, match=rf"^{name}='0': must be >= 1, or negative for no limit$"):
        LogConfig.from_server_properties({name: "0"})
    assert LogConfig.from_server_properties({"log.retention.ms": "1", name: "1"}).retention_ms == 1
    assert LogConfig.from_properties({"retention.ms": "0"}).retention_ms == 0


def test_types_have_the_codes_of_describe_configs() -> None:
    codes = {key.type.name: int(key.type) for key in TOPIC_CONFIG_KEYS.values()}
    assert codes == {"BOOLEAN": 1, "STRING": 2, "INT": 3, "LONG": 5, "DOUBLE": 6, "LIST": 7}
    assert int(ConfigType.SHORT) == 4
