"""`LogConfig`, the typed form of a topic's configs: layout and retention of a log (decision).

The table behind it is `storage.config.topic_config`. The properties of a topic arrive as Kafka
writes them, with names and values as text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafkawire.records import TimestampType
from kafkawire.units import MIB
from storage.config.config_key import (
    BATCH_PREFIX_BYTES,
    DAY_MS,
    LONG_MAX,
    MINUTE_MS,
    SMALLEST_BATCH_BYTES,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Synonym,
)
from storage.config.topic_config import (
    TOPIC_CONFIG_KEYS,
    check_topic_config,
    topic_defaults,
    unknown_topic_configs,
)

__all__ = [
    "TOPIC_CONFIG_KEYS",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "LogConfig",
    "Synonym",
    "check_topic_config",
    "topic_defaults",
    "unknown_topic_configs",
]

COMPACT: Final = "compact"
DELETE: Final = "delete"
DELETING: Final = frozenset({"cleanup.policy", "retention.ms", "retention.bytes"})
"""The topic configs that decide which records are deleted."""
PRODUCER_CODEC: Final = "producer"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Layout on disk and retention of one partition's log.

    Field names follow Kafka's topic configs, with dots as underscores; the unit is the last word
    of the name. `None` means no limit.
    """

    segment_bytes: int = 1024 * MIB
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * MIB
    index_interval_bytes: int = 4096
    preallocate: bool = False
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    file_delete_delay_ms: int = MINUTE_MS

    cleanup_policy: frozenset[str] = frozenset({DELETE})
    retention_ms: int | None = 7 * DAY_MS
    retention_bytes: int | None = None
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5

    max_message_bytes: int = MIB + BATCH_PREFIX_BYTES
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = LONG_MAX
    message_timestamp_difference_max_ms: int = LONG_MAX
    compression_type: str = PRODUCER_CODEC
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3

    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    follower_replication_throttled_replicas: tuple[str, ...] = ()

    # Attributes instead of properties, because each append reads them.
    is_compacted: bool = field(init=False, compare=False, repr=False)
    """Whether every record needs a key and only the last record per key is kept."""
    max_segment_ms: int = field(init=False, compare=False, repr=False)
    """Span of record time after which a segment is closed.

    The limit `max.compaction.lag.ms` of a compacted log can shorten it.
    """

    def __post_init__(self) -> None:
        if self.segment_bytes < SMALLEST_BATCH_BYTES:
            raise ValueError(
                f"segment_bytes must be at least {SMALLEST_BATCH_BYTES}, got {self.segment_bytes}"
            )
        if self.index_interval_bytes < 0:
            raise ValueError(
                f"index_interval_bytes must not be negative, got {self.index_interval_bytes}"
            )
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ValueError(
                f"min.compaction.lag.ms={self.min_compaction_lag_ms} must not exceed "
                f"max.compaction.lag.ms={self.max_compaction_lag_ms}"
            )
        is_compacted = COMPACT in self.cleanup_policy
        limit_ms = min(self.segment_ms, self.max_compaction_lag_ms)
        object.__setattr__(self, "is_compacted", is_compacted)
        object.__setattr__(self, "max_segment_ms", limit_ms if is_compacted else self.segment_ms)

    def without_deletion(self) -> "LogConfig":
        """Return this config without retention and compaction."""
        return replace(
            self, cleanup_policy=frozenset({DELETE}), retention_ms=None, retention_bytes=None
        )

    @classmethod
    def from_properties(
        cls, overrides: Mapping[str, str], defaults: "LogConfig | None" = None
    ) -> "LogConfig":
        """Return `defaults` with the topic configs in `overrides` applied.

        Raises:
            ValueError: a name is unknown or a value is illegal. The text names key, value and rule.
        """
        if unknown := unknown_topic_configs(overrides):
            raise ValueError(f"{unknown[0]}: unknown topic config")
        parsed = {name: TOPIC_CONFIG_KEYS[name].parse(text) for name, text in overrides.items()}
        defaults = defaults or cls()
        return replace(defaults, **_fields(parsed, defaults))

    @classmethod
    def from_stored(
        cls, overrides: Mapping[str, str], defaults: "LogConfig"
    ) -> tuple["LogConfig", list[str]]:
        """Return `defaults` with the legal ones of `overrides`, and the errors of the others.

        A program with other names or rules may have stored them. One such override must not undo
        the others: without its cleanup policy, a compacted topic would lose records. For the same
        reason an illegal policy or retention means no deletion at all.
        """
        config, errors = defaults, list[str]()
        is_safe = True
        for name, text in overrides.items():
            try:
                config = cls.from_properties({name: text}, config)
            except ValueError as error:
                errors.append(str(error))
                is_safe = is_safe and name not in DELETING
        return config if is_safe else config.without_deletion(), errors

    @classmethod
    def from_server_properties(cls, properties: Mapping[str, str]) -> "LogConfig":
        """Return the defaults that the properties of a broker set for all topics.

        Raises:
            ValueError: a value is illegal. The text names the topic config that it would set.
        """
        return cls.from_properties(topic_defaults(properties))


def _fields(parsed: Mapping[str, ConfigValue], defaults: LogConfig) -> dict[str, Any]:
    """Turn parsed topic configs into the fields that differ from `defaults`."""
    fields: dict[str, Any] = {}
    for name, value in parsed.items():
        field = name.replace(".", "_")
        match name:
            case "cleanup.policy":
                assert isinstance(value, tuple)
                fields[field] = frozenset(item.lower() for item in value)
            case "retention.ms" | "retention.bytes":
                assert isinstance(value, int)
                fields[field] = value if value >= 0 else None
            case "message.timestamp.type":
                is_append_time = value == "LogAppendTime"
                fields[field] = TimestampType(is_append_time)
            case _ if field in LogConfig.__dataclass_fields__:
                fields[field] = value
    _apply_timestamp_difference(fields, defaults)
    return fields


def _apply_timestamp_difference(fields: dict[str, Any], defaults: LogConfig) -> None:
    """Use the deprecated two-sided limit for each one-sided limit that is not set.

    As in Kafka, a one-sided limit of the brokers counts as set, even if it is their two-sided one.
    """
    difference = fields.get(
        "message_timestamp_difference_max_ms", defaults.message_timestamp_difference_max_ms
    )
    for name in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
        if fields.get(name, getattr(defaults, name)) == LONG_MAX:
            fields[name] = difference
