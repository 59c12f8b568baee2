"""The SQL audit of two log directories, timed in a process (and a JVM) of its own. Kind: edge.

`python -m benchmarks.audit_sql CLEAN RAW POINT` prints the seconds of the second run.
"""

from __future__ import annotations

import sys
import time

MASTER = "local[2]"
HEAP = "2g"


def main(clean: str, raw: str, cleaned_until: int) -> float:
    """Seconds of the audit, once the JVM is warm."""
    from analytics.data_source import KafkaSegments
    from analytics.spark_session import start_session
    from analytics.sql_audit import COLUMNS, changed_keys

    session = start_session(MASTER, {"spark.driver.memory": HEAP}, is_long=True)
    session.dataSource.register(KafkaSegments)
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        logs = [
            session.read.format("kafka-segments").schema(COLUMNS).load(directory)
            for directory in (clean, raw)
        ]
        assert changed_keys(logs[0], logs[1], cleaned_until).count() == 0
        seconds = time.perf_counter() - started
    return seconds


if __name__ == "__main__":
    sys.stdout.write(f"{main(sys.argv[1], sys.argv[2], int(sys.argv[3]))}\n")
