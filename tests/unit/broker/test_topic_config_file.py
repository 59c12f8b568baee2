"""The configs that topics set, on disk: `broker.topic_config_file`."""

from pathlib import Path

import pytest

from broker.errors import StartupError
from broker.topic_config_file import FILE_NAME, read_topic_configs, write_topic_configs


def test_what_was_written_is_read(tmp_path: Path) -> None:
    configs = {"b": {"retention.ms": "5"}, "a": {"cleanup.policy": "compact,delete"}}
    write_topic_configs(tmp_path, configs)
    assert read_topic_configs(tmp_path) == configs


def test_without_a_file_nothing_is_set(tmp_path: Path) -> None:
    assert read_topic_configs(tmp_path) == {}
    assert read_topic_configs(tmp_path / "no" / "such") == {}


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"version": 2, "topics": {}}', '{"version": 1, "topics": {"t": 5}}'],
)
def test_a_damaged_file_stops_the_start(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(StartupError, match="is damaged"):
        read_topic_configs(tmp_path)
