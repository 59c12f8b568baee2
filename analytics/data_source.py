"""`spark.read.format("kafka-segments")`, the records of log directories as a DataFrame (edge).

    spark.dataSource.register(KafkaSegments)
    spark.read.format("kafka-segments").schema("offset bigint, key binary").load("/copy/broker-1")

`.schema()` is the projection: Spark does not pass the columns of a query to a Python source, so
the source decodes exactly the columns of the schema. Several paths are several replicas: a list
for `load`, or the option `paths` with commas between them.

With the option `pushdown`, filters on topic, partition and offset skip whole ranges; Spark filters
the remaining rows. Load a new DataFrame for each query then: Spark 4.3 reuses the filters of one
query for the next query on the same DataFrame, which would get too few rows. Pushdown also needs
`spark.sql.python.filterPushdown.enabled`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from analytics.place import places_in
from analytics.pushdown import Wanted


class KafkaSegments(DataSource):
    """The batch source; the option `range.bytes` limits the size of a split."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafka-segments"

    def schema(self) -> str:
        """Return all columns; pass `.schema()` to read fewer."""
        from analytics.decode import SCHEMA

        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of one query."""
        options = dict(self.options)
        kind = PushingReader if options.get("pushdown", "false") == "true" else SegmentReader
        return kind([field.name for field in schema.fields], options)


class RangePartition(InputPartition):
    """One range of a segment, as plain data."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)


class SegmentReader(DataSourceReader):
    """Plans ranges on the driver, decodes them on the workers."""

    def __init__(self, columns: list[str], options: dict[str, str]) -> None:
        self._columns = columns
        self._paths = places_in(options)
        self._range_bytes = int(options.get("range.bytes", "0"))
        self._wanted = Wanted()

    def partitions(self) -> list[InputPartition]:
        """Return the ranges that may contain a wanted record."""
        from analytics.discovery import find_replicas
        from analytics.segment_range import RANGE_BYTES, cut_replicas

        replicas = [
            replica
            for path in self._paths
            for replica in find_replicas(path, lambda _: None)
            if self._wanted.is_wanted(replica.topic, replica.partition)
        ]
        ranges = cut_replicas(replicas, self._range_bytes or RANGE_BYTES)
        return [RangePartition(asdict(each)) for each in self._wanted.choose(ranges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one range."""
        from analytics.shipping import adopt_compiled

        adopt_compiled()
        from analytics.decode import decode
        from analytics.segment_range import SegmentRange

        yield from decode(
            SegmentRange(**partition.value), self._columns, until_offset=self._wanted.end_offset
        )


class PushingReader(SegmentReader):
    """A reader that accepts filters. Spark pushes filters to every reader with `pushFilters`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Accept filters that skip whole ranges; yield the filters that Spark must still apply."""
        for each in filters:
            column = each.attribute[0] if getattr(each, "attribute", None) else ""
            is_taken = False
            if isinstance(each, EqualTo):
                is_taken = self._wanted.equal(column, each.value)
            elif isinstance(each, GreaterThan | GreaterThanOrEqual):
                self._wanted.at_least(column, each.value)
            elif isinstance(each, LessThan | LessThanOrEqual):
                self._wanted.at_most(column, each.value)
            if not is_taken:
                yield each
