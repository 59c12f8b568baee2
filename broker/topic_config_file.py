"""The configs that topics set, kept over a restart (edge).

Bytes on disk: one JSON object in `topic-configs.json`, `{"version": 1, "topics": {name: {key:
value}}}`. Invariant: the file holds the old configs or the new ones, never a mixture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.errors import StartupError
from storage.checkpoint import write_atomically

FILE_NAME: Final = "topic-configs.json"
_VERSION: Final = 1

TopicConfigs = dict[str, dict[str, str]]


def read_topic_configs(directory: Path) -> TopicConfigs:
    """Return the configs of each topic that sets any; none if there is no file.

    Raises:
        StartupError: the file is damaged; the topics would silently have other configs.
    """
    path = directory / FILE_NAME
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']} is not {_VERSION}")
        return {
            str(topic): {str(key): str(value) for key, value in configs.items()}
            for topic, configs in content["topics"].items()
        }
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StartupError(f"{path} is damaged ({error}): mend or remove it") from error


def write_topic_configs(directory: Path, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Replace the file; durable when this returns.

    Raises:
        OSError: nothing has changed.
    """
    content = {"version": _VERSION, "topics": {name: dict(topics[name]) for name in sorted(topics)}}
    write_atomically(directory / FILE_NAME, json.dumps(content, indent=1) + "\n")
