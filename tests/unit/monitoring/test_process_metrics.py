"""The metrics of this process: `monitoring.process_metrics`."""

import time
from pathlib import Path

import pytest

from monitoring import process_metrics
from monitoring.process_metrics import PROCESS_FAMILIES, process_pieces


def values() -> dict[str, float]:
    text = "".join(process_pieces())
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_the_process_shows_its_memory_files_and_start() -> None:
    found = values()
    assert found.keys() == {each.name for each in PROCESS_FAMILIES}
    assert 1e6 < found["process_resident_memory_bytes"] < found["process_virtual_memory_bytes"]
    assert found["process_open_fds"] == pytest.approx(
        len(list(Path("/proc/self/fd").iterdir())), abs=5
    )
    # Linux knows the time of its own start, from which it counts, in whole seconds.
    assert found["process_start_time_seconds"] < time.time() + 1


def test_without_proc_the_other_metrics_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_metrics, "_PROC", tmp_path)
    assert values().keys() == {"process_cpu_seconds_total", "process_max_fds"}
