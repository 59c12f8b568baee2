"""The log that the compaction tests share."""

from pathlib import Path

import pytest

from storage.log.log import Log
from tests.unit.storage.compacting import COMPACTED
from tests.unit.storage.logs import open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """An empty log that is compacted."""
    return open_log(tmp_path / "orders-0", COMPACTED)
