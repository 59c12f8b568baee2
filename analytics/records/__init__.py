"""The records of logs, read from their files as a consumer receives them from a broker.

`PartitionLog` says which offsets a consumer may see, `LogReader` reads them, `RecordRows` turns
them into Arrow columns. The Spark source `record_source` and `ottla export` share these three.
"""

from typing import Final

HEADERS: Final = "headers"
COLUMNS: Final = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
    HEADERS,
)
"""The columns of a record, by the names of Spark's Kafka source."""
