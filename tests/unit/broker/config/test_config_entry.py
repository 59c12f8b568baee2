"""The config entries of DescribeConfigs: `broker.config.config_entry`."""

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.config_entry import (
    ConfigSource,
    Synonym,
    broker_entries,
    logger_entries,
    shared_entries,
    topic_entries,
)
from broker.config.dynamic_config import DynamicConfig
from storage.config.log_config import ConfigType

STATIC = BrokerConfig.from_properties({"log.retention.hours": "2", "num.partitions": "4"})
GIVEN = DynamicConfig(STATIC)


def test_a_topics_own_value_wins_over_the_brokers() -> None:
    entries = {entry.name: entry for entry in topic_entries({"retention.ms": "5"}, GIVEN)}
    entry = entries["retention.ms"]
    assert (entry.value, entry.source, entry.is_read_only) == (
        "5",
        ConfigSource.TOPIC_CONFIG,
        False,
    )
    assert entry.synonyms == (
        Synonym("retention.ms", "5", ConfigSource.TOPIC_CONFIG),
        Synonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG),
        Synonym("log.retention.ms", "604800000", ConfigSource.DEFAULT_CONFIG),
    )


def test_a_brokers_value_is_shown_in_the_topics_unit() -> None:
    entries = {entry.name: entry for entry in topic_entries({}, GIVEN)}
    entry = entries["retention.ms"]
    assert (entry.value, entry.source) == ("7200000", ConfigSource.STATIC_BROKER_CONFIG)


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("cleanup.policy", " compact , delete ", "compact,delete"),
        ("retention.ms", " 5 ", "5"),
        ("segment.bytes", "+1000", "1000"),
        ("preallocate", "FALSE", "false"),
        ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
        ("retention.ms", "of another program", "of another program"),
    ],
)
def test_a_value_is_shown_as_kafka_writes_it(name: str, text: str, shown: str) -> None:
    entry = {entry.name: entry for entry in topic_entries({name: text}, GIVEN)}[name]
    assert entry.value == shown
    assert entry.synonyms[0] == Synonym(name, shown, ConfigSource.TOPIC_CONFIG)


def test_a_key_without_a_value_has_its_default() -> None:
    entries = {entry.name: entry for entry in topic_entries({}, GIVEN)}
    assert (entries["segment.bytes"].value, entries["segment.bytes"].source) == (
        "1073741824",
        ConfigSource.DEFAULT_CONFIG,
    )
    assert entries["remote.storage.enable"].source is ConfigSource.DEFAULT_CONFIG
    assert entries["remote.storage.enable"].synonyms == ()


def test_broker_entries_hold_all_keys() -> None:
    entries = {entry.name: entry for entry in broker_entries(GIVEN)}
    assert entries["num.partitions"].is_read_only
    assert not entries["log.retention.ms"].is_read_only
    given, default = entries["num.partitions"], entries["broker.rack"]
    assert (given.value, given.source, given.type) == (
        "4",
        ConfigSource.STATIC_BROKER_CONFIG,
        ConfigType.INT,
    )
    assert (default.value, default.source) == (None, ConfigSource.DEFAULT_CONFIG)
    assert entries["log.retention.hours"].value == "2"
    assert entries["log.segment.bytes"].value == "1073741824"


def test_dynamic_configs_take_precedence() -> None:
    config = DynamicConfig(STATIC)
    config.adopt_shared({"log.retention.ms": "3", "leader.replication.throttled.rate": "9"})
    config.adopt_own({"log.retention.ms": "4", "somebody.elses.key": "x"})
    expected = (
        Synonym("log.retention.ms", "4", ConfigSource.DYNAMIC_BROKER_CONFIG),
        Synonym("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        Synonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG),
        Synonym("log.retention.ms", "604800000", ConfigSource.DEFAULT_CONFIG),
    )
    topic = {entry.name: entry for entry in topic_entries({}, config)}["retention.ms"]
    assert (topic.value, topic.source) == ("4", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert topic.synonyms == expected
    entries = {entry.name: entry for entry in broker_entries(config)}
    assert entries["log.retention.ms"].synonyms == expected
    assert (entries["log.retention.hours"].value, entries["log.retention.hours"].source) == (
        "2",
        ConfigSource.STATIC_BROKER_CONFIG,
    )
    rate, stranger = entries["leader.replication.throttled.rate"], entries["somebody.elses.key"]
    assert (rate.value, rate.type, rate.is_read_only) == ("9", ConfigType.LONG, True)
    assert (stranger.value, stranger.type) == (None, ConfigType.STRING)


def test_shared_entries_hold_shared_configs_only() -> None:
    config = DynamicConfig(STATIC)
    config.adopt_shared({"log.retention.ms": "3"})
    config.adopt_own({"log.retention.ms": "4"})
    [entry] = shared_entries(config)
    assert (entry.name, entry.value, entry.synonyms) == (
        "log.retention.ms",
        "3",
        (Synonym("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),),
    )


def test_the_value_of_an_unknown_key_is_hidden() -> None:
    config = DynamicConfig(STATIC)
    config.adopt_shared({"somebody.elses.password": "s3cret"})
    config.adopt_own({"somebody.elses.password": "s3cret, too"})
    for entries in (broker_entries(config), shared_entries(config)):
        [entry] = [each for each in entries if each.name == "somebody.elses.password"]
        assert (entry.value, entry.is_sensitive) == (None, True)
        assert {synonym.value for synonym in entry.synonyms} == {None}
    for entry in broker_entries(GIVEN):
        assert entry.is_sensitive == (entry.type is ConfigType.PASSWORD)
    assert not any(entry.is_sensitive for entry in topic_entries({}, GIVEN))


def test_levels_of_loggers_have_a_source_of_their_own() -> None:
    [entry] = logger_entries({"broker": "DEBUG"})
    assert (entry.name, entry.value, entry.is_read_only) == ("broker", "DEBUG", False)
    assert entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
