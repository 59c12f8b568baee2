"""Snapshots are taken by a child at low priority, except for the last one, at the stop."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordination.server.disk import snapshotter as disk_snapshotter
from coordination.server.disk.data_dir import DataDir, segment_path
from coordination.server.disk.snapshotter import NICENESS, Snapshotter
from tests.waiting import until


def unfinished(directory: Path) -> list[Path]:
    return list(directory.glob("*.tmp"))


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


async def test_the_file_of_a_snapshot_that_was_killed_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"
    child.write_text(f'#!/bin/sh\ntouch "{tmp_path}/snap-0.$$.tmp"\nkill -9 $$\n')
    child.chmod(0o700)
    other = tmp_path / "snap-0.1.tmp"
    other.touch()
    monkeypatch.setattr(sys, "executable", str(child))
    with capture_logs() as logged:
        await Snapshotter(tmp_path).finish(takes_snapshot=True)
    assert [each["event"] for each in logged] == ["snapshot.failed"]
    assert unfinished(tmp_path) == [other]


async def test_a_spent_file_that_cannot_be_deleted_does_not_disturb_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    monkeypatch.setattr(disk_snapshotter, "spent_files", lambda directory: [directory / "gone"])
    with capture_logs() as logged:
        await Snapshotter(tmp_path).finish(takes_snapshot=True)
    assert [each["event"] for each in logged] == ["file.not_deleted"]


def test_ctrl_c_in_a_terminal_does_not_end_the_child(tmp_path: Path) -> None:
    DataDir(tmp_path).close()
    segment = segment_path(tmp_path, 1)
    os.mkfifo(segment)
    command = [sys.executable, "-m", "coordination.server.disk.snapshotter", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        # Opens once the child reads.
        with segment.open("wb") as content:
            child.send_signal(signal.SIGINT)
            content.write(b"torn")
        _, logged = child.communicate()
    assert (child.returncode, logged) == (0, "")
