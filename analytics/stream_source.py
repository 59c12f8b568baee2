"""Edge: `spark.readStream.format("kafka-batches")`: the batches that a growing log gets, checked.

One row per batch, with a column `finding` where S1, S2 or S3 is broken: checksum, records, offsets
that go back or leave a gap, epochs that go back. Indexes (S5, S6) need a whole segment: the batch
audit judges them. Progress is a record offset per partition, never a byte position: a broker rolls,
deletes and compacts segments while the stream runs, and offsets stay what they are.

Compaction is judged by batch jobs (`ottla audit compaction`), not here: the cleaner rewrites what
the stream has passed, and uniqueness would need all keys as state for ever.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from analytics.stream_batches import LogEnds

SCHEMA = (
    "topic string, partition int, file string, position bigint, base_offset bigint, "
    "last_offset bigint, leader_epoch int, record_count int, size_bytes int, "
    "max_timestamp_ms bigint, finding string, expected string, found string"
)


class KafkaBatches(DataSource):
    """The streaming source; the option `path` names a log directory."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format`."""
        return "kafka-batches"

    def schema(self) -> str:
        """One row per batch."""
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's
        """The reader of one query."""
        return BatchReader(dict(self.options))


class BatchReader(DataSourceStreamReader):
    """Offsets are `{"topic-partition": [next offset, its leader epoch]}`."""

    def __init__(self, options: dict[str, str]) -> None:
        self._path = options["path"]
        self._ends = LogEnds()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before the first batch of each log."""
        return {}

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the whole batches of each log end now."""
        return self._ends.find(self._path)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task per log that has grown."""
        return [
            InputPartition((name, start.get(name, [-1, -1]), reached))
            for name, reached in end.items()
            if reached != start.get(name)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one log between two offsets."""
        from analytics.shipping import adopt_compiled

        adopt_compiled()
        from analytics.stream_batches import read_batches

        name, start, end = partition.value
        yield from read_batches(self._path, name, tuple(start), end[0])
