"""What a broker without a cluster must remember over a restart, besides its logs (edge).

Bytes on disk: one JSON object in `local-topics.json`, `{"version": 1, "start_count": n, "topics":
{name: {key: value}}}`: how often the broker has started, and what each topic configures. Invariant:
the file holds the old state or the new one, never a mixture. It goes when the cluster comes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.errors import StartupError
from storage.checkpoint import write_atomically

FILE_NAME: Final = "local-topics.json"
_VERSION: Final = 1

TopicConfigs = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalState:
    """How often the broker has started, and the configs of each topic that sets any."""

    start_count: int = 0
    configs: TopicConfigs = field(default_factory=dict)


def read_local_state(directory: Path) -> LocalState:
    """Return what is remembered; nothing if there is no file.

    Raises:
        StartupError: the file is damaged; topics would silently have other configs.
    """
    path = directory / FILE_NAME
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']} is not {_VERSION}")
        configs = {
            str(topic): {str(key): str(value) for key, value in pairs.items()}
            for topic, pairs in content["topics"].items()
        }
        return LocalState(start_count=int(content["start_count"]), configs=configs)
    except (FileNotFoundError, NotADirectoryError):
        return LocalState()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StartupError(f"{path} is damaged ({error}): mend or remove it") from error


def write_local_state(directory: Path, state: LocalState) -> None:
    """Replace the file; durable when this returns.

    Raises:
        OSError: nothing has changed.
    """
    content = {
        "version": _VERSION,
        "start_count": state.start_count,
        "topics": {name: dict(state.configs[name]) for name in sorted(state.configs)},
    }
    write_atomically(directory / FILE_NAME, json.dumps(content, indent=1) + "\n")
