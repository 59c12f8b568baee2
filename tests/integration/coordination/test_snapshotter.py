"""Snapshots are taken by a child that yields to others, unless somebody waits for it."""

import os
from pathlib import Path

import pytest

from coordination.snapshotter import NICENESS, Snapshotter
from tests.waiting import until


async def test_a_snapshot_that_somebody_waits_for_yields_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yielded: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "setpriority", lambda *arguments: yielded.append(arguments))
    snapshotter = Snapshotter(tmp_path)
    snapshotter.start()
    await until(lambda: bool(yielded), "the first child")
    await snapshotter.finish(takes_snapshot=True)
    assert [niceness for _, _, niceness in yielded] == [NICENESS]
