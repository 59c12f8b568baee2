"""Segments whose files are closed while another thread syncs them."""

import os
import threading
from pathlib import Path

import pytest

from kafkawire.ids import Offset
from storage.segment.segment import Segment
from tests.unit.storage.logs import NOW_MS, SMALL

PATIENCE_S = 0.2
"""Time that a sync gets to run into a file that is being closed."""


def test_a_sync_never_uses_a_file_that_is_being_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the descriptor is closed, other threads run."""
    segment = Segment.create(tmp_path, Offset(0), SMALL, NOW_MS)
    segment.close()
    descriptor, close = segment.file.fileno(), os.close
    errors: list[OSError] = []

    def sync() -> None:
        try:
            segment.sync()
        except OSError as error:
            errors.append(error)

    syncing = threading.Thread(target=sync)

    def close_and_sync(number: int) -> None:
        close(number)
        if number == descriptor and syncing.ident is None:
            syncing.start()
            syncing.join(PATIENCE_S)

    monkeypatch.setattr(os, "close", close_and_sync)
    segment.release()
    syncing.join()
    assert errors == []
