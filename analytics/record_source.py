"""`format("kafka-records")`: the records of log directories as from Spark's Kafka source (edge).

    spark.dataSource.register(KafkaRecords)
    spark.read.format("kafka-records").option("subscribe", "orders").load("/var/kafka")
    spark.readStream.format("kafka-records").option("subscribe", "orders").load("/var/kafka")

Columns and options have the names and the meaning of Spark's `format("kafka")`: `subscribe`,
`subscribePattern`, `assign`, `startingOffsets`, `endingOffsets`, `includeHeaders`,
`failOnDataLoss`, `maxOffsetsPerTrigger` and `kafka.isolation.level`. Instead of a broker there are
log directories: `path`, or several in `paths`, separated by commas, or a list for `load`. Of
several replicas of a partition one is read. `range.bytes` limits the size of a split, and
`toLogEnd` reads records above the high watermark, too. `.schema()` is the projection.

Modules with loops over records are imported by the methods that run on workers, after the compiled
loops that were shipped to them.
"""

import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from analytics.errors import DataLossError, RecordsError, RecordsUsageError
from analytics.place import places_in
from analytics.records import COLUMNS
from analytics.records.offset_choice import (
    EARLIEST,
    INTERNAL_TOPICS,
    LATEST,
    Isolation,
    Offsets,
    Position,
    TopicChoice,
    from_json,
    limited,
    read_count,
    read_flag,
    read_position,
    resolve,
    to_json,
)
from kafkawire.ids import TopicPartition

if TYPE_CHECKING:
    from analytics.records.partition_log import PartitionLog

BASE_SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
HEADERS_SCHEMA: Final = ", headers array<struct<key: string, value: binary>>"
_OPTIONS: Final = (
    *("path", "paths", "subscribe", "subscribePattern", "assign", "startingOffsets"),
    *("endingOffsets", "includeHeaders", "failOnDataLoss", "maxOffsetsPerTrigger", "toLogEnd"),
    *("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp"),
    *("endingOffsetsByTimestamp", "kafka.isolation.level", "range.bytes"),
)

Logs = Mapping[TopicPartition, "PartitionLog"]


class KafkaRecords(DataSource):
    """The source, for batch and streaming queries."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafka-records"

    def schema(self) -> str:
        """Return the columns; `headers` is one of them with the option `includeHeaders`."""
        has_headers = read_flag(_known(self.options), "includeHeaders", default=False)
        return BASE_SCHEMA + (HEADERS_SCHEMA if has_headers else "")

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of a batch query."""
        return RecordBatchReader(Scan(schema.names, _known(self.options)))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        return RecordStreamReader(Scan(schema.names, _known(self.options)))


class Scan:
    """The options of one query: the logs to read, and the tasks that read them."""

    def __init__(self, columns: list[str], options: Mapping[str, str]) -> None:
        unknown = [name for name in columns if name not in COLUMNS]
        if unknown:
            raise RecordsUsageError(
                f"the source has no column {unknown[0]}; its columns are {', '.join(COLUMNS)}"
            )
        self.options = options
        self._columns = columns
        self._places = places_in(options)
        if not self._places:
            raise RecordsUsageError("there is nothing to load: give a log directory")
        self._choice = TopicChoice(options, INTERNAL_TOPICS)
        self._range_bytes = read_count(options, "range.bytes")
        self._to_log_end = read_flag(options, "toLogEnd", default=False)
        self.may_lose_data = not read_flag(options, "failOnDataLoss", default=True)
        level = options.get("kafka.isolation.level", Isolation.READ_UNCOMMITTED)
        if level not in set(Isolation):
            raise RecordsUsageError(
                f"kafka.isolation.level must be {' or '.join(Isolation)}, got {level}"
            )
        self._isolation = Isolation(level)

    def find_logs(self) -> Logs:
        """Return the logs to read, as they are now."""
        from analytics.records.partition_log import find_logs

        logs = find_logs(
            self._places,
            self._isolation,
            self._choice.accepts,
            to_log_end=self._to_log_end,
            may_lose_data=self.may_lose_data,
        )
        self._choice.check_found(logs)
        return logs

    def end_after(self, partition: TopicPartition, read_to: int, log: "PartitionLog | None") -> int:
        """Return the visible end of a log that a stream has read up to `read_to`.

        Raises:
            DataLossError: the log ends before.
        """
        if log is not None and log.log_end < read_to:
            self._lose(
                f"{partition} ends at offset {log.log_end}, but is read up to {read_to}: "
                "the replica lags, or the topic was created again"
            )
            return log.end
        # A checkpoint of the high watermark may lag, and the log may be gone.
        return read_to if log is None else max(read_to, log.end)

    def tasks(self, logs: Logs, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Return the tasks that read from `start` to `end`.

        Raises:
            DataLossError: the log no longer reaches so far, or begins later.
        """
        from analytics.segment_range import RANGE_BYTES, first_offsets

        tasks = []
        for partition, until in sorted(end.items()):
            log, first = logs.get(partition), start.get(partition, 0)
            if first == until:
                continue
            if first > until:
                self._lose(f"{partition} ends at offset {until}, before the start at {first}")
                continue
            if log is None:
                self._lose(f"the log of {partition} is gone; offset {first} was expected")
                continue
            if first < log.start:
                self._lose(f"{partition} begins at offset {log.start}, expected {first}")
            if until > log.end:
                self._lose(f"{partition} ends at offset {log.end}, expected {until}")
            first, until = max(first, log.start), min(until, log.end)
            range_bytes = self._range_bytes or RANGE_BYTES
            cuts = first_offsets(log.replica, first, until, range_bytes)
            bounds = [first, *(cut for cut in cuts if first < cut < until), until]
            tasks += [
                InputPartition((log.directory, *partition, one, two, str(self._isolation)))
                for one, two in pairwise(bounds)
                if one < two
            ]
        return tasks

    def read(self, task: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one task."""
        from analytics.shipping import adopt_compiled

        adopt_compiled()
        from analytics.records.record_rows import LogSpan, RecordReader

        directory, topic, partition, start, end, isolation = task.value
        span = LogSpan(
            directory=directory,
            topic=topic,
            partition=partition,
            start=start,
            end=end,
            isolation=isolation,
        )
        reader = RecordReader(span, self._columns, may_lose_data=self.may_lose_data)
        yield from reader.batches()
        for sentence in reader.lost:
            _warn(sentence)

    def _lose(self, sentence: str) -> None:
        if not self.may_lose_data:
            raise DataLossError(f"{sentence}; failOnDataLoss=false skips such parts")
        _warn(sentence)


class RecordBatchReader(DataSourceReader):
    """The reader of one batch query."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        options = scan.options
        self._starting = read_position(
            "startingOffsets", options.get("startingOffsets", "earliest"), forbidden=LATEST
        )
        self._ending = read_position(
            "endingOffsets", options.get("endingOffsets", "latest"), forbidden=EARLIEST
        )

    def partitions(self) -> list[InputPartition]:
        """Return the tasks of the query."""
        logs = self._scan.find_logs()
        start = _resolve("startingOffsets", self._starting, logs)
        end = _resolve("endingOffsets", self._ending, logs)
        return self._scan.tasks(logs, start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one task."""
        return self._scan.read(partition)


class RecordStreamReader(DataSourceStreamReader):
    """The reader of one streaming query. Its offsets are as in the checkpoints of Spark's source.

    A partition that appears later is read from its beginning.
    """

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        options = scan.options
        self._starting = read_position("startingOffsets", options.get("startingOffsets", "latest"))
        if "endingOffsets" in options:
            raise RecordsUsageError("endingOffsets is only for batch queries")
        self._max_offsets = read_count(options, "maxOffsetsPerTrigger")
        if self._max_offsets is not None:
            _read_limit(self._max_offsets)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offsets at which a new query begins."""
        return to_json(_resolve("startingOffsets", self._starting, self._scan.find_logs()))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """Return the limit of a micro-batch by `maxOffsetsPerTrigger`."""
        return _read_limit(self._max_offsets)

    # Spark 4.1 gives no arguments, and limits nothing.
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Return the visible end of each log, or less by the limit."""
        logs = self._scan.find_logs()
        begin = {partition: log.start for partition, log in logs.items()} | from_json(start or {})
        end = {
            partition: self._scan.end_after(partition, offset, logs.get(partition))
            for partition, offset in begin.items()
        }
        max_rows = getattr(limit, "max_rows", None)
        return to_json(end if max_rows is None else limited(begin, end, max_rows))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of one micro-batch."""
        logs = self._scan.find_logs()
        begin = {partition: log.start for partition, log in logs.items()} | from_json(start)
        return self._scan.tasks(logs, begin, from_json(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one task."""
        return self._scan.read(partition)


def _resolve(name: str, position: Position, logs: Logs) -> dict[TopicPartition, int]:
    earliest = {partition: log.start for partition, log in logs.items()}
    latest = {partition: log.end for partition, log in logs.items()}
    return resolve(name, position, earliest, latest)


def _known(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of this source under their documented names; Spark ignores their case."""
    return {name: options[name] for name in _OPTIONS if name in options}


def _read_limit(max_offsets: int | None) -> Any:
    try:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
    except ImportError:
        raise RecordsError("maxOffsetsPerTrigger needs Spark 4.2 or newer") from None
    return ReadAllAvailable() if max_offsets is None else ReadMaxRows(max_offsets)


def _warn(sentence: str) -> None:
    sys.stderr.write(f"kafka-records: {sentence}\n")
