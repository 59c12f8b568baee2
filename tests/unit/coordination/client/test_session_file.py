"""The file of a session."""

import os
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordination.client import session_file
from coordination.client.session_file import SavedSession


async def test_a_lack_of_threads_costs_only_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "can't start new thread"

    def start_no_thread(*_: object, **__: object) -> None:
        raise RuntimeError(message)

    monkeypatch.setattr("aiofiles.open", start_no_thread)
    saved = SavedSession("localhost:2181", 1, b"x", 1)
    with capture_logs() as logged:
        await session_file.save(tmp_path / "s", saved)
    assert [each["event"] for each in logged] == ["session_file.not_written"]
    message = "a bug"
    with pytest.raises(RuntimeError, match="a bug"):
        await session_file.save(tmp_path / "s", saved)


async def test_the_loop_does_not_wait_for_the_disk_while_a_session_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync
    syncing: list[threading.Thread] = []

    def fsync(descriptor: int) -> None:
        syncing.append(threading.current_thread())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    saved = SavedSession("127.0.0.1:2181", session_id=7, password=b"secret", pid=1)
    await session_file.save(tmp_path / "session", saved)
    assert await session_file.load(tmp_path / "session") == saved
    assert len(syncing) == 1
    assert threading.current_thread() not in syncing
