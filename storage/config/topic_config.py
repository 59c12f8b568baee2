"""The rows of the topic config table (decision).

See `config_key` for its columns. The generated reference page is made from this table.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kafkawire.units import MIB
from storage.config.config_key import (
    BATCH_PREFIX_BYTES,
    DAY_MS,
    GZIP_LEVEL,
    HOUR_MS,
    LONG_MAX,
    MINUTE_MS,
    REPLICA_LIST,
    RETENTION_TIME,
    SMALLEST_BATCH_BYTES,
    ConfigKey,
    ConfigType,
    Importance,
    Synonym,
    at_least,
    between,
    list_of,
    one_of,
)
from storage.config.format_version import FORMAT_VERSION

BOOLEAN, DOUBLE, INT = ConfigType.BOOLEAN, ConfigType.DOUBLE, ConfigType.INT
LIST, LONG, STRING = ConfigType.LIST, ConfigType.LONG, ConfigType.STRING


def _synonyms(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) for name in names)


def _by_name(*keys: ConfigKey) -> Mapping[str, ConfigKey]:
    return {key.name: key for key in keys}


_LAYOUT: Final = (
    ConfigKey(
        name="segment.bytes",
        type=INT,
        default=str(1024 * MIB),
        rule=at_least(SMALLEST_BATCH_BYTES),
        synonyms=_synonyms("log.segment.bytes"),
        documentation="Size of one segment file. Retention and compaction work on whole segments: "
        "small ones free space sooner, large ones mean fewer files.",
    ),
    ConfigKey(
        name="segment.ms",
        type=LONG,
        default=str(7 * DAY_MS),
        rule=at_least(1),
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
        documentation="Maximum difference between the timestamps of the first and the newest batch "
        "of a segment. A later batch closes the segment even if the file is not full, so that old "
        "data can be deleted or compacted.",
    ),
    ConfigKey(
        name="segment.jitter.ms",
        type=LONG,
        default="0",
        rule=at_least(0),
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
        documentation="Upper bound of the random time by which segment.ms is shortened for each "
        "segment, so that many partitions do not roll at once.",
    ),
    ConfigKey(
        name="segment.index.bytes",
        type=INT,
        default=str(10 * MIB),
        rule=at_least(4),
        synonyms=_synonyms("log.index.size.max.bytes"),
        documentation="Size to which the index files of the active segment are extended. They "
        "shrink to their content when the segment is closed; a full index closes the segment.",
    ),
    ConfigKey(
        name="index.interval.bytes",
        type=INT,
        default="4096",
        rule=at_least(0),
        synonyms=_synonyms("log.index.interval.bytes"),
        documentation="Number of bytes of the log per index entry. With fewer bytes, reads start "
        "closer to their offset, and the index is larger.",
    ),
    ConfigKey(
        name="preallocate",
        type=BOOLEAN,
        default="false",
        synonyms=_synonyms("log.preallocate"),
        documentation="Whether disk space for a whole segment is reserved when it is created.",
    ),
    ConfigKey(
        name="flush.messages",
        type=LONG,
        default=str(LONG_MAX),
        rule=at_least(1),
        synonyms=_synonyms("log.flush.interval.messages"),
        documentation="Force data to disk after this many records. 1 makes every append wait for "
        "the disk. Leave it alone where replication provides durability.",
    ),
    ConfigKey(
        name="flush.ms",
        type=LONG,
        default=str(LONG_MAX),
        rule=at_least(0),
        synonyms=_synonyms("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        documentation="Maximum time between two flushes of data to disk. Leave it alone where "
        "replication provides durability.",
    ),
    ConfigKey(
        name="file.delete.delay.ms",
        type=LONG,
        default=str(MINUTE_MS),
        rule=at_least(0),
        synonyms=_synonyms("log.segment.delete.delay.ms"),
        documentation="Time for which an obsolete file stays on disk under the name *.deleted.",
    ),
)

_RETENTION: Final = (
    ConfigKey(
        name="cleanup.policy",
        type=LIST,
        default="delete",
        rule=list_of("compact", "delete"),
        synonyms=_synonyms("log.cleanup.policy"),
        documentation="Treatment of old segments: delete discards them by age and size, compact "
        "keeps the last record of every key, compact,delete does both.",
    ),
    ConfigKey(
        name="retention.ms",
        type=LONG,
        default=str(7 * DAY_MS),
        rule=at_least(-1),
        synonyms=(
            Synonym("log.retention.ms", rule=RETENTION_TIME),
            Synonym("log.retention.minutes", MINUTE_MS, RETENTION_TIME),
            Synonym("log.retention.hours", HOUR_MS, RETENTION_TIME),
        ),
        documentation="A segment whose newest record is older than this is deleted, under the "
        "delete policy. -1 keeps segments of any age.",
    ),
    ConfigKey(
        name="retention.bytes",
        type=LONG,
        default="-1",
        synonyms=_synonyms("log.retention.bytes"),
        documentation="The oldest segments of a partition are deleted while it is larger than "
        "this, under the delete policy. It counts per partition, not per topic. -1 means no limit.",
    ),
    ConfigKey(
        name="delete.retention.ms",
        type=LONG,
        default=str(DAY_MS),
        rule=at_least(0),
        synonyms=_synonyms("log.cleaner.delete.retention.ms"),
        documentation="Time for which compaction keeps the marker of a deleted key, counted from "
        "the first cleaning that saw it. A reader that starts at the beginning must reach the "
        "marker within this time.",
    ),
    ConfigKey(
        name="min.compaction.lag.ms",
        type=LONG,
        default="0",
        rule=at_least(0),
        synonyms=_synonyms("log.cleaner.min.compaction.lag.ms"),
        documentation="Records younger than this are not compacted.",
    ),
    ConfigKey(
        name="max.compaction.lag.ms",
        type=LONG,
        default=str(LONG_MAX),
        rule=at_least(1),
        synonyms=_synonyms("log.cleaner.max.compaction.lag.ms"),
        documentation="Maximum age of records that are not compacted yet: an older one makes its "
        "log due for compaction, regardless of min.cleanable.dirty.ratio.",
    ),
    ConfigKey(
        name="min.cleanable.dirty.ratio",
        type=DOUBLE,
        default="0.5",
        rule=between(0, 1),
        synonyms=_synonyms("log.cleaner.min.cleanable.ratio"),
        documentation="A log is compacted when more than this share of it has not been compacted "
        "yet. Higher means rarer and cheaper cleaning, and more space for duplicates.",
    ),
)

_RECORDS: Final = (
    ConfigKey(
        name="max.message.bytes",
        type=INT,
        default=str(MIB + BATCH_PREFIX_BYTES),
        rule=at_least(0),
        synonyms=_synonyms("message.max.bytes"),
        documentation="Largest record batch that a producer may send, as it is on the wire, that "
        "is, after compression.",
    ),
    ConfigKey(
        name="message.timestamp.type",
        type=STRING,
        default="CreateTime",
        rule=one_of("CreateTime", "LogAppendTime"),
        synonyms=_synonyms("log.message.timestamp.type"),
        documentation="Whether a record keeps the producer's timestamp (CreateTime) or gets the "
        "broker's time of its append (LogAppendTime).",
    ),
    ConfigKey(
        name="message.timestamp.before.max.ms",
        type=LONG,
        default=str(LONG_MAX),
        rule=at_least(0),
        synonyms=_synonyms("log.message.timestamp.before.max.ms"),
        documentation="Maximum time by which a CreateTime timestamp may lie before the broker's "
        "clock; a batch with an older one is refused.",
    ),
    ConfigKey(
        name="message.timestamp.after.max.ms",
        type=LONG,
        default=str(LONG_MAX),
        rule=at_least(0),
        synonyms=_synonyms("log.message.timestamp.after.max.ms"),
        documentation="Maximum time by which a CreateTime timestamp may lie after the broker's "
        "clock; a batch with a later one is refused.",
    ),
    ConfigKey(
        name="message.timestamp.difference.max.ms",
        type=LONG,
        default=str(LONG_MAX),
        rule=at_least(0),
        synonyms=_synonyms("log.message.timestamp.difference.max.ms"),
        documentation="Deprecated: replaces message.timestamp.before.max.ms and "
        "message.timestamp.after.max.ms if they have their defaults.",
    ),
    ConfigKey(
        name="message.format.version",
        type=STRING,
        default="3.0-IV1",
        rule=FORMAT_VERSION,
        synonyms=_synonyms("log.message.format.version"),
        documentation="Deprecated and without effect: every record is stored in message format 2.",
    ),
    ConfigKey(
        name="message.downconversion.enable",
        type=BOOLEAN,
        default="true",
        importance=Importance.LOW,
        synonyms=_synonyms("log.message.downconversion.enable"),
        documentation="Without effect: records are never converted to an older message format.",
    ),
    ConfigKey(
        name="compression.type",
        type=STRING,
        default="producer",
        rule=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=_synonyms("compression.type"),
        documentation="Codec in which batches are stored: producer keeps the one that the producer "
        "chose, uncompressed means none, any other name recompresses.",
    ),
    ConfigKey(
        name="compression.gzip.level",
        type=INT,
        default="-1",
        rule=GZIP_LEVEL,
        synonyms=_synonyms("compression.gzip.level"),
        documentation="Level for compression.type=gzip.",
    ),
    ConfigKey(
        name="compression.lz4.level",
        type=INT,
        default="9",
        rule=between(1, 17),
        synonyms=_synonyms("compression.lz4.level"),
        documentation="Level for compression.type=lz4.",
    ),
    ConfigKey(
        name="compression.zstd.level",
        type=INT,
        default="3",
        rule=between(-131072, 22),
        synonyms=_synonyms("compression.zstd.level"),
        documentation="Level for compression.type=zstd.",
    ),
)

_REPLICATION: Final = (
    ConfigKey(
        name="min.insync.replicas",
        type=INT,
        default="1",
        rule=at_least(1),
        synonyms=_synonyms("min.insync.replicas"),
        documentation="Number of in-sync replicas that a produce request with acks=all needs; with "
        "fewer it is refused.",
    ),
    ConfigKey(
        name="unclean.leader.election.enable",
        type=BOOLEAN,
        default="false",
        synonyms=_synonyms("unclean.leader.election.enable"),
        documentation="Whether a replica outside the in-sync set may lead when no in-sync one is "
        "left. It brings the partition back and may lose acknowledged records.",
    ),
    ConfigKey(
        name="leader.replication.throttled.replicas",
        type=LIST,
        default="",
        rule=REPLICA_LIST,
        documentation="Replicas whose leader sends to them under the leader's replication quota.",
    ),
    ConfigKey(
        name="follower.replication.throttled.replicas",
        type=LIST,
        default="",
        rule=REPLICA_LIST,
        documentation="Replicas that fetch under the follower's replication quota.",
    ),
)

_TIERED_STORAGE: Final = (
    ConfigKey(
        name="remote.storage.enable",
        type=BOOLEAN,
        default="false",
        documentation="Accepted for compatibility; tiered storage is not supported.",
    ),
    ConfigKey(
        name="local.retention.ms",
        type=LONG,
        default="-2",
        rule=at_least(-2),
        synonyms=_synonyms("log.local.retention.ms"),
        documentation="Without effect, as tiered storage is not supported; -2 means the value of "
        " retention.ms.",
    ),
    ConfigKey(
        name="local.retention.bytes",
        type=LONG,
        default="-2",
        rule=at_least(-2),
        synonyms=_synonyms("log.local.retention.bytes"),
        documentation="Without effect, as tiered storage is not supported; -2 means the value of "
        " retention.bytes.",
    ),
    ConfigKey(
        name="remote.log.copy.disable",
        type=BOOLEAN,
        default="false",
        documentation="Accepted for compatibility; tiered storage is not supported.",
    ),
    ConfigKey(
        name="remote.log.delete.on.disable",
        type=BOOLEAN,
        default="false",
        documentation="Accepted for compatibility; tiered storage is not supported.",
    ),
)

TOPIC_CONFIG_KEYS: Final[Mapping[str, ConfigKey]] = _by_name(
    *_LAYOUT, *_RETENTION, *_RECORDS, *_REPLICATION, *_TIERED_STORAGE
)
"""Every topic config by name, grouped by subject."""


def check_topic_config(name: str, text: str) -> None:
    """Check one topic config.

    Raises:
        ValueError: the name is unknown, or the value is illegal. The text names the rule.
    """
    _key(name).parse(text)


def unknown_topic_configs(names: Iterable[str]) -> list[str]:
    """Return the names that are not topic configs, sorted."""
    return sorted(set(names) - TOPIC_CONFIG_KEYS.keys())


def topic_defaults(server_properties: Mapping[str, str]) -> dict[str, str]:
    """Translate broker-level properties to the topic configs whose defaults they set.

    The first synonym in the table takes precedence; units are converted (hours to milliseconds).

    Raises:
        ValueError: a value is illegal. The text names the broker's key, the value and the rule.
    """
    defaults: dict[str, str] = {}
    for key in TOPIC_CONFIG_KEYS.values():
        chosen = next((s for s in key.synonyms if s.name in server_properties), None)
        if chosen is not None:
            defaults[key.name] = _converted(server_properties[chosen.name], chosen)
    return defaults


def _converted(text: str, synonym: Synonym) -> str:
    if synonym.multiplier == 1 and synonym.rule is None:
        return text
    try:
        amount = int(text)
    except ValueError:
        raise ValueError(f"{synonym.name}={text!r}: must be of type int") from None
    if synonym.rule is not None and not synonym.rule.accepts(amount):
        raise ValueError(f"{synonym.name}={text!r}: must be {synonym.rule.text}")
    # A negative time means "no limit" in any unit.
    return str(amount * synonym.multiplier if amount >= 0 else -1)


def _key(name: str) -> ConfigKey:
    key = TOPIC_CONFIG_KEYS.get(name)
    if key is None:
        raise ValueError(f"{name}: unknown topic config")
    return key
