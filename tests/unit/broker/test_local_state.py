"""What a broker without a cluster remembers: `broker.local_state`."""

from pathlib import Path

import pytest

from broker.errors import StartupError
from broker.local_state import FILE_NAME, LocalState, read_local_state, write_local_state


def test_what_was_written_is_read(tmp_path: Path) -> None:
    state = LocalState(
        start_count=3,
        configs={"b": {"retention.ms": "5"}, "a": {"cleanup.policy": "compact,delete"}},
    )
    write_local_state(tmp_path, state)
    assert read_local_state(tmp_path) == state


def test_without_a_file_nothing_is_remembered(tmp_path: Path) -> None:
    assert read_local_state(tmp_path) == LocalState()
    assert read_local_state(tmp_path / "no" / "such") == LocalState()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "start_count": 1, "topics": {}}',
        '{"version": 1, "start_count": 1, "topics": {"t": 5}}',
        '{"version": 1, "start_count": "x", "topics": {}}',
        '{"version": 1, "topics": {}}',
    ],
)
def test_a_damaged_file_stops_the_start(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(StartupError, match="is damaged"):
        read_local_state(tmp_path)
