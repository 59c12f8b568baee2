"""One audit, timed in a process (and a JVM) of its own, with the memory of its driver. Kind: edge.

`python -m benchmarks.audit_run CLEAN RAW` prints JSON: the seconds of the second run, and how much
memory the driver's Python and its JVM held at most.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

MASTER = "local[2]"
# More than enough for the rows that a driver gets; an audit that wanted more would end here.
HEAP = "512m"


def main(clean: str, raw: str) -> dict[str, float]:
    """Seconds and memory of a compaction audit, once Spark is warm."""
    from analytics.plan import Audit
    from analytics.run import Request, run_audit
    from analytics.spark_session import start_session

    # The benchmarks keep their own process on one core; an audit has all of them.
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
    """The process of the driver's JVM."""
    handle = session.sparkContext._jvm.java.lang.ProcessHandle.current()  # noqa: SLF001 - Spark's
    return int(handle.pid())


def peak_mib(pid: int) -> float:
    """How much memory a process held at most."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmHWM"].split()[0]) / 1024


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2])) + "\n")
