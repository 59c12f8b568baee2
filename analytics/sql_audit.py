"""Composition: uniqueness and preservation in Spark SQL: a second, independent way.

Slower than the tasks of `spark_audit` by the cost of a shuffle; it shares only the decoding with
them. Both answer the same question, so each is the other's test. Input is the data source's
DataFrame (columns topic, partition, offset, key_hash_high, key_hash_low, value_bytes, fingerprint).
"""

from typing import Any, Final

COLUMNS: Final = (
    "topic string, partition int, offset bigint, attributes bigint, key_hash_high bigint, "
    "key_hash_low bigint, key_bytes int, value_bytes int, fingerprint bigint"
)
"""What `.schema()` of the data source has to be for these audits."""

RANGE_BYTES: Final = 256 * 1024 * 1024
"""What one task reads. It groups its own records before any is shuffled, and the more it has seen
the fewer are left; a map of so many keys still fits the memory of two tasks in 2 GiB."""

_KEYS: Final = ("topic", "partition", "key_hash_high", "key_hash_low")
_CONTROL_BIT: Final = 0x20


def read_log(session: Any, directory: str) -> Any:
    """The records of a log directory, as these audits take them; KafkaSegments is registered."""
    source = session.read.format("kafka-segments").schema(COLUMNS)
    return source.option("range.bytes", RANGE_BYTES).load(directory)


def keyed(records: Any) -> Any:
    """The records with a key; markers of transactions have none."""
    is_data = f"(attributes & {_CONTROL_BIT}) = 0 and key_bytes >= 0"
    return records.where(is_data)


def duplicate_keys(records: Any, cleaned_until: int) -> Any:
    """Rows (topic, partition, offset) of all records but the last of each key, below the point."""
    from pyspark.sql import functions as f

    below = keyed(records).where(f.col("offset") < cleaned_until)
    last = below.groupBy(*_KEYS).agg(f.count("*").alias("n"), f.max("offset").alias("last"))
    repeated = last.where("n > 1")
    return (
        below.join(repeated, list(_KEYS))
        .where("offset < last")
        .select("topic", "partition", "offset", f.lit("duplicate_key").alias("what"))
    )


def changed_keys(records: Any, reference: Any, cleaned_until: int) -> Any:
    """Rows (topic, partition, offset, what) of keys whose last record is not what it was.

    One shuffle answers: both logs in one grouping, tombstones told by their length. What is right
    about a missing tombstone depends on time, so those rows are `missing_tombstone`.
    """
    from pyspark.sql import functions as f

    # Plain numbers, not structs: only those may change in place, without which Spark sorts.
    nothing = f.lit(None).cast("bigint")
    fingerprint = f.expr("if(value_bytes < 0, null, fingerprint)")

    def below(log: Any, *columns: Any) -> Any:
        names = ("expected_offset", "expected_print", "found_offset", "found_print")
        named = [column.alias(name) for column, name in zip(columns, names, strict=True)]
        return keyed(log).where(f.col("offset") < cleaned_until).select(*_KEYS, *named)

    expected = below(reference, f.col("offset"), fingerprint, nothing, nothing)
    found = below(records, nothing, nothing, f.col("offset"), fingerprint)
    last = (
        expected.unionAll(found)
        .groupBy(*_KEYS)
        .agg(
            f.max_by("expected_print", "expected_offset").alias("expected_print"),
            f.max("expected_offset").alias("expected_offset"),
            f.max_by("found_print", "found_offset").alias("found_print"),
            f.max("found_offset").alias("found_offset"),
        )
    )
    what = (
        f.when(f.col("expected_offset").isNull(), "unknown_record")
        .when(
            f.col("found_offset").isNull() & f.col("expected_print").isNull(), "missing_tombstone"
        )
        .when(f.col("found_offset").isNull(), "lost_key")
        .when(f.col("found_offset") < f.col("expected_offset"), "stale_value")
        .when(f.col("found_offset") > f.col("expected_offset"), "moved_record")
        .when(~f.col("found_print").eqNullSafe(f.col("expected_print")), "changed_value")
    )
    place = f.coalesce("found_offset", "expected_offset").alias("offset")
    return last.select("topic", "partition", place, what.alias("what")).where("what is not null")
