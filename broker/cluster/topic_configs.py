"""What topics override, as far as this broker holds logs of them (edge).

The truth lies in the coordinator's nodes. This broker reads it when it opens or creates a log, and
again whenever a notice says that it has changed; everything else that is asked about a topic's
configs is read from there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from broker.cluster.config_nodes import ConfigNodes
from broker.config_change import changed_keys
from controller.config_requests import read_all_topic_configs, read_topic_configs
from storage.config import LogConfig

KIND: Final = "topics"
Overrides = Mapping[str, str]

log = structlog.get_logger(__name__)


class TopicConfigs:
    """Knows the overrides of topics, and hears of changes once it listens."""

    def __init__(self, nodes: ConfigNodes, defaults: Callable[[], LogConfig]) -> None:
        self._nodes = nodes
        self._defaults = defaults
        self._overrides: dict[str, Overrides] = {}
        self._on_change: Callable[[str, Overrides], None] = lambda _name, _overrides: None
        nodes.on_change(KIND, self._on_news)

    async def load(self) -> None:
        """Learn what all topics override."""
        self._overrides = dict(await self._nodes.session.run(read_all_topic_configs()))

    async def refresh(self, topics: Iterable[str]) -> None:
        """Read again what `topics` override: no notice tells that of a topic that is created."""
        wanted = set(topics)
        found = await self._nodes.session.run(read_topic_configs(wanted))
        for name in wanted:
            self._overrides.pop(name, None)
        self._overrides |= found

    def log_config(self, topic: str) -> LogConfig:
        """Return the configs of a topic's logs; an override that is not legal is left out."""
        overrides, defaults = self._overrides.get(topic), self._defaults()
        if not overrides:
            return defaults
        try:
            return LogConfig.from_properties(overrides, defaults)
        except ValueError as error:
            log.error("config.ignored", topic=topic, error=str(error))
            return defaults

    async def read(self, topic: str) -> Overrides:
        """Return what `topic` overrides at this moment.

        Raises:
            ApiError: the coordinator does not say.
        """
        return await self._nodes.read(f"{KIND}/{topic}")

    def listen(self, on_change: Callable[[str, Overrides], None]) -> None:
        """Tell `on_change` of every topic whose overrides change from now on."""
        self._on_change = on_change

    async def _on_news(self, topics: Sequence[str]) -> None:
        before = {name: self._overrides.get(name, {}) for name in topics}
        await self.refresh(topics)
        for name in topics:
            overrides = self._overrides.get(name, {})
            log.info("config.changed", topic=name, keys=changed_keys(before[name], overrides))
            self._on_change(name, overrides)
