"""Any system call of a store fails: acknowledged writes survive."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordination.errors import DataError
from coordination.protocol.messages import OPEN_ACL
from coordination.server.coordinator import open_state
from coordination.server.disk import wal, wal_writer
from coordination.server.disk.data_dir import DataDir, spent_files
from coordination.server.disk.snapshotter import take_snapshot
from coordination.server.disk.wal_writer import WalWriter
from coordination.server.state.txns import CreateTxn, Entry
from tests.faults import Fault, Injection, drawn, injected

STEP_BYTES = 4096
SEGMENTS = 4
BATCHES = 3


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (wal, wal_writer):
        monkeypatch.setattr(module, "ALLOCATION_STEP_BYTES", STEP_BYTES)
    with capture_logs():
        yield


class Store:
    """Operations of a coordinator on its data directory, and its acknowledged writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.acknowledged = 0
        self.written = 0

    def live(self, *, is_killed: bool = False) -> int:
        """Start, write batches in several segments, and stop; return the recovered zxid.

        A failure of the log ends a coordinator, a failure of a snapshot does not.
        """
        directory = DataDir(self.path)
        try:
            recovered, writer = open_state(directory)
            first = self.written = recovered.state.zxid
            assert first >= self.acknowledged
            for number in range(first + 1):
                assert number == 0 or f"/{number}" in recovered.state.tree.nodes
            try:
                self._write(writer, is_killed=is_killed)
            finally:
                # As at the end of a process.
                if _is_open_below(writer._file, self.path):
                    os.close(writer._file)
        finally:
            directory.close()
        return first

    def _write(self, writer: WalWriter, *, is_killed: bool) -> None:
        for _ in range(SEGMENTS):
            for _ in range(BATCHES):
                self.written += 1
                txn = CreateTxn(f"/{self.written}", b"x" * 700, OPEN_ACL, 0, self.written)
                writer.append([Entry(self.written, 5, 0, 0, txn)])
                writer.sync()
                self.acknowledged = self.written
                writer.seal()
            if is_killed:
                return
            writer.roll()
            with suppress(OSError, DataError):
                take_snapshot(self.path)
                for path in spent_files(self.path):
                    path.unlink()
        writer.close()


def _is_open_below(descriptor: int, path: Path) -> bool:
    link = Path(f"/proc/self/fd/{descriptor}")
    return link.is_symlink() and path in link.readlink().parents


def open_files_below(path: Path) -> list[Path]:
    files = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            files.append(link.readlink())
    return [file for file in files if path in file.parents]


def run(template: Path, path: Path, fault: Fault, at: int | None, acknowledged: int) -> Injection:
    """Run a store until it meets the fault, then start it twice more."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(template, path)
    store = Store(path)
    store.acknowledged = store.written = acknowledged
    with injected(fault, at, path) as injection, suppress(OSError, DataError):
        store.live()
    if at is None or fault is Fault.SHORT:
        assert store.acknowledged == acknowledged + SEGMENTS * BATCHES
    attempted = store.written
    with injected(fault, None, path):
        assert store.live() <= attempted
        assert store.live() == store.written - SEGMENTS * BATCHES
    return injection


def run_all(tmp_path: Path, fault: Fault, is_new: bool, seed: int | None = None) -> None:
    """Let each call fail, or a few that `seed` draws."""
    template, path = tmp_path / "template", tmp_path / "store"
    template.mkdir()
    acknowledged = 0
    if not is_new:
        store = Store(template)
        store.live(is_killed=True)
        acknowledged = store.acknowledged
    count = run(template, path, fault, None, acknowledged).count
    hits: Counter[str | None] = Counter()
    for at in range(count) if seed is None else drawn(count, seed):
        try:
            hits[run(template, path, fault, at, acknowledged).hit] += 1
        except Exception as error:
            error.add_note(f"{fault.value} at call {at} of {count}")
            raise
    assert count > 0
    assert None not in hits
    assert open_files_below(tmp_path) == []
    sys.stdout.write(f"{fault.value}: {count} points: {dict(hits)}\n")


@pytest.mark.fresh_seeds(1)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("is_new", [True, False], ids=["a new store", "a store after a crash"])
def test_acknowledged_writes_survive_a_fault_at_any_system_call(
    tmp_path: Path, fault: Fault, is_new: bool, seed: int
) -> None:
    run_all(tmp_path, fault, is_new, seed)


@pytest.mark.soak
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("is_new", [True, False], ids=["a new store", "a store after a crash"])
def test_acknowledged_writes_survive_a_fault_at_each_system_call(
    tmp_path: Path, fault: Fault, is_new: bool
) -> None:
    run_all(tmp_path, fault, is_new)
