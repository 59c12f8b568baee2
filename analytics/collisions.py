"""Composition: S14, different keys that a cleaner would take for one, because their hashes agree.

Kafka's cleaner knows keys by their MD5 alone. With all 16 bytes nobody meets two keys of one hash
by chance, but somebody can make them; a cleaner that keeps fewer bytes of it is proved harmless, or
not, on the real keys. Keys are grouped by Spark, which spills what memory does not hold.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from analytics.finding import FINDING_SCHEMA, Check, Finding, arrow_schema

HASH_BYTES: Final = 16
COLUMNS: Final = (
    "topic string, partition int, replica string, file string, position bigint, offset bigint, "
    "attributes bigint, key binary"
)
"""What `.schema()` of the data source has to be for this audit."""

_CONTROL_BIT: Final = 0x20
_GROUP: Final = ("topic", "partition", "prefix")


def read_keys(session: Any, places: Sequence[str]) -> Any:
    """The records of log directories that have a key, as far as `collisions` wants to see them."""
    from analytics.data_source import KafkaSegments

    session.dataSource.register(KafkaSegments)
    source = session.read.format("kafka-segments").schema(COLUMNS)
    return source.option("paths", ",".join(places)).load()


def collisions(records: Any, hash_bytes: int = HASH_BYTES, limit: int = 200) -> Any:
    """Findings about the keys of a partition that share the first `hash_bytes` of their MD5.

    One for each key but the first of those that share them, at the key's last record; at most
    `limit` groups of keys are told.
    """
    from pyspark.sql import functions as f

    is_data = f"(attributes & {_CONTROL_BIT}) = 0 and key is not null"
    prefix = f.substring(f.md5("key"), 1, 2 * hash_bytes).alias("prefix")
    keyed = records.where(is_data).select("*", prefix)
    shared = (
        keyed.select(*_GROUP, "key")
        .distinct()
        .groupBy(*_GROUP)
        .agg(f.count("*").alias("keys"), f.min("key").alias("first_key"))
        .where("keys > 1")
        .drop("keys")
        .limit(limit)
    )
    # Where there is none, which is known before this join, nothing is read again.
    place = f.max(f.struct("offset", "replica", "file", "position")).alias("place")
    return (
        keyed.join(f.broadcast(shared), list(_GROUP))
        .where("key <> first_key")
        .groupBy("topic", "partition", "first_key", "key")
        .agg(place)
        .select("topic", "partition", "place.*", "first_key", "key")
        .coalesce(1)
        .sortWithinPartitions("topic", "partition", "offset")
        .mapInArrow(_tell, FINDING_SCHEMA)
    )


def _tell(batches: Iterable[Any]) -> Iterator[Any]:
    """Findings of rows (topic, partition, offset, replica, file, position, first_key, key)."""
    from analytics.shipping import adopt_compiled

    adopt_compiled()
    import pyarrow

    schema = arrow_schema(pyarrow)
    for batch in batches:
        rows = [_finding(row).to_row() for row in batch.to_pylist()]
        yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)


def _finding(row: dict[str, Any]) -> Finding:
    from analytics.checks.uniqueness import show_key

    first_key, key = row.pop("first_key"), row.pop("key")
    # As Kafka's cleaner hashes: not a matter of security.
    digests = [hashlib.md5(each, usedforsecurity=False).hexdigest() for each in (first_key, key)]
    return Finding(
        check=Check.COLLISIONS,
        what="key_collision",
        expected=f"another hash than that of key {show_key(first_key)}, {digests[0]}",
        found=f"key {show_key(key)}, {digests[1]}",
        **row,
    )
