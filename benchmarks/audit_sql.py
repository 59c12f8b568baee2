"""The time of an SQL audit of two log directories in its own process (and JVM) (edge).

`python -m benchmarks.audit_sql CLEAN RAW POINT` prints JSON: the seconds of the second run, and the
number of bytes spilled to disk.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

MASTER = "local[2]"
HEAP = "2g"


def main(clean: str, raw: str, cleaned_until: int) -> dict[str, float]:
    """Return the seconds of the audit once the JVM is warm, and the spilled bytes."""
    from analytics.data_source import KafkaSegments
    from analytics.spark_session import start_session
    from tests.analytics.sql_audit import changed_keys, read_log

    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    session = start_session(MASTER, {"spark.driver.memory": HEAP}, uses_sql=True)
    session.dataSource.register(KafkaSegments)
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        logs = read_log(session, clean), read_log(session, raw)
        assert changed_keys(*logs, cleaned_until).count() == 0
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "spilled_bytes": spilled_bytes(session)}


def spilled_bytes(session: Any) -> int:
    """Return the number of bytes that all stages of the session have spilled to disk."""
    context = session.sparkContext
    store = context._jsc.sc().statusStore()  # noqa: SLF001 - Spark's Python has no such question
    quantiles = context._gateway.new_array(context._jvm.double, 0)  # noqa: SLF001
    none = context._jvm.java.util.ArrayList()  # noqa: SLF001
    stages = store.stageList(none, False, False, quantiles, none)
    return sum(stages.apply(index).diskBytesSpilled() for index in range(stages.size()))


if __name__ == "__main__":
    measured = main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.stdout.write(json.dumps(measured) + "\n")
