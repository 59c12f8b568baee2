"""The time of one audit in its own process (and JVM), and the memory of its driver (edge).

`python -m benchmarks.audit_run CLEAN RAW` prints JSON: the seconds of the second run, and the peak
memory of the driver's Python and JVM processes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

MASTER = "local[2]"
# More than enough for the rows that a driver gets; an audit that needs more would fail here.
HEAP = "512m"


def main(clean: str, raw: str) -> dict[str, float]:
    """Return the seconds and the memory of a compaction audit, once Spark is warm."""
    from analytics.plan import Audit
    from analytics.run import Request, run_audit
    from analytics.spark_session import start_session

    # The benchmarks pin their own process to one core; an audit uses all cores.
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    settings = {"spark.driver.memory": HEAP}
    request = Request(
        audit=Audit.COMPACTION, directories=[clean], against=raw, master=MASTER, settings=settings
    )
    session = start_session(MASTER, settings)
    run_audit(request)
    verdict = run_audit(request).verdict
    assert verdict.is_clean, verdict.line()
    return {
        "seconds": verdict.duration_s,
        "python_mib": peak_mib(os.getpid()),
        "jvm_mib": peak_mib(jvm_pid(session)),
    }


def jvm_pid(session: Any) -> int:
    """Return the process id of the driver's JVM."""
    handle = session.sparkContext._jvm.java.lang.ProcessHandle.current()  # noqa: SLF001 - Spark's
    return int(handle.pid())


def peak_mib(pid: int) -> float:
    """Return the peak memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmHWM"].split()[0]) / 1024


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2])) + "\n")
