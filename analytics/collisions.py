"""S14: different keys with equal hashes, which a cleaner would take for one key (composition).

Kafka's cleaner identifies a key by its MD5 alone. Two keys never share all 16 bytes by chance, but
an attacker can construct such keys. For a cleaner that keeps fewer bytes of the hash, the audit
shows on the real keys whether that is safe. Spark groups the keys, and spills to disk if needed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from analytics.finding_row import FINDING_SCHEMA, arrow_schema, finding_row
from analytics.place import join_places
from logcheck.finding import Check, Damage, Finding
from logcheck.rule import Rules

HASH_BYTES: Final = 16
COLUMNS: Final = (
    "topic string, partition int, replica string, file string, position bigint, offset bigint, "
    "attributes bigint, key binary"
)
"""The `.schema()` of the data source that this audit needs."""

_CONTROL_BIT: Final = 0x20
_GROUP: Final = ("topic", "partition", "prefix")


def find_collisions(session: Any, places: Sequence[str], rules: Rules) -> list[dict[str, Any]]:
    """Return the findings of `collisions` in the log directories `places`."""
    from analytics.data_source import KafkaSegments
    from analytics.spark_session import spark_errors_translated

    session.dataSource.register(KafkaSegments)
    source = session.read.format("kafka-segments").schema(COLUMNS)
    records = source.option("paths", join_places(places)).load()
    with spark_errors_translated():
        found = collisions(records, rules.hash_bytes, rules.finding_limit).toArrow()
        rows: list[dict[str, Any]] = found.to_pylist()
        if len(rows) >= rules.finding_limit:
            groups = _groups(_keyed(records, rules.hash_bytes)).count()
            rows += _unlisted(rows, groups - rules.finding_limit)
    return rows


def _unlisted(rows: Sequence[dict[str, Any]], more: int) -> list[dict[str, Any]]:
    """Return a row for `more` groups of colliding keys that are not listed; none for 0."""
    if more <= 0:
        return []
    found = f"{more} more hashes that different keys share"
    last = rows[-1] | {"position": None, "offset": None}
    return [last | {"expected": "keys with different hashes", "found": found, "more": more - 1}]


def collisions(records: Any, hash_bytes: int = HASH_BYTES, limit: int = 200) -> Any:
    """Return findings for keys of a partition that share the first `hash_bytes` of their MD5.

    In each group of colliding keys, every key but the first has one finding, at its last record.
    At most `limit` groups are reported.
    """
    from pyspark.sql import functions as f

    keyed = _keyed(records, hash_bytes)
    shared = _groups(keyed).limit(limit)
    # Without a collision `shared` is empty, and Spark skips the second read for this join.
    place = f.max(f.struct("offset", "replica", "file", "position")).alias("place")
    return (
        keyed.join(f.broadcast(shared), list(_GROUP))
        .where("key <> first_key")
        .groupBy("topic", "partition", "first_key", "key")
        .agg(place)
        .select("topic", "partition", "place.*", "first_key", "key")
        .coalesce(1)
        .sortWithinPartitions("topic", "partition", "offset")
        .mapInArrow(_to_findings, FINDING_SCHEMA)
    )


def _keyed(records: Any, hash_bytes: int) -> Any:
    """Return the records with a key, and the first bytes of its MD5 as the column `prefix`."""
    from pyspark.sql import functions as f

    is_data = f"(attributes & {_CONTROL_BIT}) = 0 and key is not null"
    prefix = f.substring(f.md5("key"), 1, 2 * hash_bytes).alias("prefix")
    return records.where(is_data).select("*", prefix)


def _groups(keyed: Any) -> Any:
    """Return each prefix that different keys of a partition share, and the first of them."""
    from pyspark.sql import functions as f

    return (
        keyed.select(*_GROUP, "key")
        .distinct()
        .groupBy(*_GROUP)
        .agg(f.count("*").alias("keys"), f.min("key").alias("first_key"))
        .where("keys > 1")
        .drop("keys")
    )


def _to_findings(batches: Iterable[Any]) -> Iterator[Any]:
    """Turn rows (topic, partition, offset, replica, file, position, first_key, key) to findings."""
    from analytics.shipping import adopt_compiled

    adopt_compiled()
    import pyarrow

    schema = arrow_schema(pyarrow)
    for batch in batches:
        rows = [finding_row(_finding(row)) for row in batch.to_pylist()]
        yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)


def _finding(row: dict[str, Any]) -> Finding:
    from logcheck.uniqueness import show_key

    first_key, key = row.pop("first_key"), row.pop("key")
    # The hash of Kafka's cleaner; it serves no security purpose.
    digests = [hashlib.md5(each, usedforsecurity=False).hexdigest() for each in (first_key, key)]
    return Finding(
        check=Check.COLLISIONS,
        damage=Damage.KEY_COLLISION,
        expected=f"a hash other than that of key {show_key(first_key)}, {digests[0]}",
        found=f"key {show_key(key)}, {digests[1]}",
        **row,
    )
