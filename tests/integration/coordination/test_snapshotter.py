"""Snapshots are taken by a child at low priority, except for the last one, at the stop."""

import os
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordination.server.disk.snapshotter import NICENESS, Snapshotter
from tests.waiting import until


async def test_the_last_snapshot_runs_at_normal_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "setpriority", lambda *arguments: calls.append(arguments))
    snapshotter = Snapshotter(tmp_path)
    snapshotter.start()
    await until(lambda: bool(calls), "the first child")
    await snapshotter.finish(takes_snapshot=True)
    assert [niceness for _, _, niceness in calls] == [NICENESS]


async def test_a_snapshot_that_cannot_be_started_does_not_disturb_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    with capture_logs() as logged:
        await Snapshotter(tmp_path).finish(takes_snapshot=True)
    assert [each["event"] for each in logged] == ["snapshot.failed"]
