"""Uniqueness and preservation in Spark SQL, an independent second implementation.

It is slower than the tasks of `spark_audit` by the cost of a shuffle, and shares only the decoding
with them. Both give the same findings, so each is a test of the other. Input is the data source's
DataFrame (columns topic, partition, offset, key_hash_high, key_hash_low, value_bytes, fingerprint).
"""

from typing import Any, Final

COLUMNS: Final = (
    "topic string, partition int, offset bigint, attributes bigint, key_hash_high bigint, "
    "key_hash_low bigint, key_bytes int, value_bytes int, fingerprint bigint"
)
"""The `.schema()` of the data source that these audits need."""

RANGE_BYTES: Final = 256 * 1024 * 1024
"""Size of the range of one task. A task groups its records before the shuffle, so a larger range
leaves fewer rows to shuffle; the key maps of two tasks of this size still fit into 2 GiB."""

_KEYS: Final = ("topic", "partition", "key_hash_high", "key_hash_low")
_CONTROL_BIT: Final = 0x20


def read_log(session: Any, directory: str) -> Any:
    """Return the records of a log directory for these audits; register KafkaSegments before."""
    source = session.read.format("kafka-segments").schema(COLUMNS)
    return source.option("range.bytes", RANGE_BYTES).load(directory)


def keyed(records: Any) -> Any:
    """Return the records with a key, without control records."""
    is_data = f"(attributes & {_CONTROL_BIT}) = 0 and key_bytes >= 0"
    return records.where(is_data)


def duplicate_keys(records: Any, cleaned_until: int) -> Any:
    """Return (topic, partition, offset, what) of superseded records below `cleaned_until`."""
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
    """Return (topic, partition, offset, what) of keys whose last record differs from the reference.

    One shuffle suffices: it groups both logs together and recognizes tombstones by their length.
    Whether a tombstone may be missing depends on time, so those rows are `missing_tombstone`.
    """
    from pyspark.sql import functions as f

    # Plain numbers, not structs: Spark updates only numbers in place, and sorts otherwise.
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
    kind = (
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
    return last.select("topic", "partition", place, kind.alias("what")).where("what is not null")
