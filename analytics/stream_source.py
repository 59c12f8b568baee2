"""`spark.readStream.format("kafka-batches")`, the new batches of growing logs, checked (edge).

One row per batch. Its column `finding` names a violation of S1, S2 or S3: a wrong checksum or
record, an offset that goes back or leaves a gap, an epoch that goes back. `severity` is `note` for
a gap that a cleaner may have left, as in audits. Each faulty index entry (S5, S6) is one more row,
with `file` and `base_offset` of the entry. Progress is a record offset per partition and the entry
counts of its newest indexes, never a position in a log file: a broker rolls, deletes and compacts
segments while the stream runs, but offsets do not change.

Batch jobs (`ottla audit compaction`) check compaction, not the stream: the cleaner rewrites batches
after the stream has read them, and uniqueness would need all keys as permanent state.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from analytics.stream_progress import LogEnd, LogEnds
from logcheck.rule import CLEANUP_POLICY, parse_rules

SCHEMA = (
    "topic string, partition int, file string, position bigint, base_offset bigint, "
    "last_offset bigint, leader_epoch int, record_count int, size_bytes int, "
    "max_timestamp_ms bigint, finding string, expected string, found string, severity string"
)


class KafkaBatches(DataSource):
    """The streaming source.

    Options: `path`, a log directory; `strict` and `cleanup.policy`, as in audits.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafka-batches"

    def schema(self) -> str:
        """Return the schema, with one row per batch."""
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's
        """Return the reader of one query."""
        return BatchReader(dict(self.options))


class BatchReader(DataSourceStreamReader):
    """The stream reader. Its offsets are `{"topic-partition": [the numbers of a LogEnd]}`."""

    def __init__(self, options: dict[str, str]) -> None:
        self._path = options["path"]
        self._is_strict = options.get("strict", "false") == "true"
        policy = options.get(CLEANUP_POLICY)
        rules = parse_rules([] if policy is None else [f"{CLEANUP_POLICY}={policy}"])
        self._cleanup_policy = rules.cleanup_policy
        self._ends = LogEnds()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the start of every log."""
        return {}

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the current end of each log, after its last complete batch."""
        return {name: list(end) for name, end in self._ends.find(self._path).items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return one task per log that has grown."""
        return [
            InputPartition((name, start.get(name, list(LogEnd())), reached))
            for name, reached in end.items()
            if reached != start.get(name)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one log between two offsets."""
        from analytics.shipping import adopt_compiled

        adopt_compiled()
        from analytics.stream_batches import read_batches

        name, start, end = partition.value
        yield from read_batches(
            self._path,
            name,
            LogEnd(*start),
            LogEnd(*end),
            is_strict=self._is_strict,
            cleanup_policy=self._cleanup_policy,
        )
