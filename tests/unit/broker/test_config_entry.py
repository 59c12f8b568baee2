"""What DescribeConfigs says of a key: `broker.config_entry`."""

from broker.config import BrokerConfig
from broker.config_entry import ConfigSource, Synonym, broker_entries, topic_entries
from storage.config import ConfigType

GIVEN = BrokerConfig.from_properties({"log.retention.hours": "2", "num.partitions": "4"})


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


def test_what_nobody_sets_has_its_default() -> None:
    entries = {entry.name: entry for entry in topic_entries({}, GIVEN)}
    assert (entries["segment.bytes"].value, entries["segment.bytes"].source) == (
        "1073741824",
        ConfigSource.DEFAULT_CONFIG,
    )
    assert entries["remote.storage.enable"].source is ConfigSource.DEFAULT_CONFIG
    assert entries["remote.storage.enable"].synonyms == ()


def test_the_broker_shows_all_its_keys_as_read_only() -> None:
    entries = {entry.name: entry for entry in broker_entries(GIVEN)}
    assert all(entry.is_read_only for entry in entries.values())
    given, default = entries["num.partitions"], entries["broker.rack"]
    assert (given.value, given.source, given.type) == (
        "4",
        ConfigSource.STATIC_BROKER_CONFIG,
        ConfigType.INT,
    )
    assert (default.value, default.source) == (None, ConfigSource.DEFAULT_CONFIG)
    assert entries["log.retention.hours"].value == "2"
    assert entries["log.segment.bytes"].value == "1073741824"
