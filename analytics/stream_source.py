"""Edge: `spark.readStream.format("kafka-batches")`: the batches that a growing log gets, checked.

One row per batch, with a column `finding` where S1, S2 or S3 is broken: checksum, records, offsets
that go back or leave a gap, epochs that go back. One row more for each entry of an index that leads
astray (S5, S6): `file` is the index, `base_offset` the entry's. Progress is a record offset per
partition and the entries of its newest indexes, never a position in a log file: a broker rolls,
deletes and compacts segments while the stream runs, and offsets stay what they are.

Compaction is judged by batch jobs (`ottla audit compaction`), not here: the cleaner rewrites what
the stream has passed, and uniqueness would need all keys as state for ever.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from analytics.stream_progress import LogEnd, LogEnds

SCHEMA = (
    "topic string, partition int, file string, position bigint, base_offset bigint, "
    "last_offset bigint, leader_epoch int, record_count int, size_bytes int, "
    "max_timestamp_ms bigint, finding string, expected string, found string"
)


class KafkaBatches(DataSource):
    """The streaming source; the option `path` names a log directory, `strict` is as in audits."""

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
    """Offsets are `{"topic-partition": [the numbers of a LogEnd]}`."""

    def __init__(self, options: dict[str, str]) -> None:
        self._path = options["path"]
        self._is_strict = options.get("strict", "false") == "true"
        self._ends = LogEnds()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before the first batch of each log."""
        return {}

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the whole batches of each log end now."""
        return {name: list(end) for name, end in self._ends.find(self._path).items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task per log that has grown."""
        return [
            InputPartition((name, start.get(name, list(LogEnd())), reached))
            for name, reached in end.items()
            if reached != start.get(name)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one log between two offsets."""
        from analytics.shipping import adopt_compiled

        adopt_compiled()
        from analytics.stream_batches import read_batches

        name, start, end = partition.value
        yield from read_batches(
            self._path, name, LogEnd(*start), LogEnd(*end), is_strict=self._is_strict
        )
