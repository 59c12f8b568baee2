"""Exports that are killed, in a process of its own (edge).

`python -m tests.analytics.export_crashes LOGS GROWN TARGETS STRIDE` exports LOGS again and again,
each time to a new directory below TARGETS. The export is killed at the first line of code that it
runs in `analytics.export`, then STRIDE lines later, and so on, until it is not killed any more.
Then it runs with files that cannot become larger than a limit. A second run exports GROWN, which is
LOGS at a later time. The program prints the number of kills and failed runs, then the offsets of
each distinct result, in JSON.
"""

import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from pyarrow import parquet

from analytics.errors import RecordsError
from analytics.export.exporting import ExportRequest, run_export
from analytics.records.offset_choice import Isolation

FOLDER = f"{os.sep}analytics{os.sep}export{os.sep}"
SMALL_FILE_BYTES = 1


def export(logs: Path, target: Path) -> None:
    results = run_export(
        ExportRequest(
            directories=[str(logs)],
            target=target,
            isolation=Isolation.READ_COMMITTED,
            file_bytes=SMALL_FILE_BYTES,
        )
    )
    assert [each.error for each in results if each.error] == []


def visible_offsets(target: Path) -> list[tuple[int, int]]:
    """Return partition and offset of each record in the files that a reader of TARGET sees."""
    return [
        (int(path.parent.name.partition("=")[2]), offset)
        for path in sorted(target.rglob("*.parquet"))
        for offset in parquet.ParquetFile(path).read(columns=["offset"]).column(0).to_pylist()
    ]


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a child; return the signal that killed the child, or minus its exit code."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def killed_at(line: int, work: Callable[[], None]) -> Callable[[], None]:
    """Return `work`, killed before it executes the given line, counted from 1."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if FOLDER not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def run() -> None:
        sys.settrace(trace)
        work()

    return run


def full_after(size_bytes: int, work: Callable[[], None]) -> Callable[[], None]:
    """Return `work`, in which no file can become larger than `size_bytes`."""

    def run() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))
        try:
            work()
        except RecordsError as error:
            os._exit(1 if "cannot be written: File too large" in str(error) else 2)

    return run


def main(first: Path, second: Path, targets: Path, stride: int) -> None:
    kills, failures = 0, 0
    results: set[str] = set()

    def conclude(target: Path) -> None:
        # A reader sees only what later runs do not repeat.
        before = set(visible_offsets(target))
        assert in_child(lambda: export(second, target)) == 0
        after = visible_offsets(target)
        assert before <= set(after)
        assert len(after) == len(set(after)), "a record was exported twice"
        assert list(target.rglob(".*.tmp")) == []
        results.add(json.dumps(sorted(after)))
        shutil.rmtree(target)

    line = 1
    while True:
        target = targets / f"killed-{line}"
        killed = in_child(killed_at(line, partial(export, first, target)))
        assert killed in (0, signal.SIGKILL), killed
        if target.exists():
            conclude(target)
        if not killed:
            break
        kills += 1
        line += stride
    for size_bytes in (0, 1, 60, 200, 300, 400, 700, 1000, 1500, 2000, 3000):
        target = targets / f"full-{size_bytes}"
        code = in_child(full_after(size_bytes, partial(export, first, target)))
        assert code in (0, -1), code
        failures += code == -1
        conclude(target)
    print(json.dumps({"kills": kills, "failures": failures}))  # noqa: T201 - its result
    for each in results:
        print(each)  # noqa: T201 - its result


if __name__ == "__main__":
    first_logs, grown_logs, folder, lines = sys.argv[1:]
    main(Path(first_logs), Path(grown_logs), Path(folder), int(lines))
