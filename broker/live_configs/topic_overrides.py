"""Config overrides of topics that have logs on this broker (edge).

The coordinator's nodes are authoritative. This broker reads them when it opens or creates a log,
and again after each change notification. Any other query for a topic's configs reads the nodes
directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from broker.config.config_change import changed_keys
from broker.live_configs.config_nodes import ConfigNodes
from clusterstate.config_requests import TopicOverrides, read_all_topic_configs, read_topic_configs
from storage.config.log_config import LogConfig

KIND: Final = "topics"
Overrides = Mapping[str, str]

log = structlog.get_logger(__name__)


class TopicConfigs:
    """Caches the overrides of topics, and follows changes once it listens."""

    def __init__(self, nodes: ConfigNodes, defaults: Callable[[], LogConfig]) -> None:
        self._nodes = nodes
        self._defaults = defaults
        self._overrides: dict[str, Overrides] = {}
        # Topics whose node holds no config, and has held none since the start.
        self._unknown: set[str] = set()
        # The former overrides of topics for whose new logs changed ones were read. The other logs
        # get these when the change is announced.
        self._unannounced: dict[str, Overrides] = {}
        self._on_change: Callable[[str, Overrides], None] = lambda _name, _overrides: None
        nodes.on_change(KIND, self._on_changed)

    async def load(self) -> None:
        """Read the overrides of all topics."""
        self._overrides = {}
        self._adopt(await self._nodes.session.run(read_all_topic_configs()))

    async def refresh(self, topics: Iterable[str]) -> None:
        """Read the overrides of `topics` again: the creation of a topic sends no notification."""
        for name, before in (await self._read_again(topics)).items():
            self._unannounced.setdefault(name, before)

    async def _read_again(self, topics: Iterable[str]) -> dict[str, Overrides]:
        """Read the overrides of `topics`; return the former ones of each changed topic."""
        wanted = set(topics)
        read = await self._nodes.session.run(read_topic_configs(wanted))
        before = {name: self._overrides.get(name, {}) for name in wanted}
        were_unknown = self._unknown & wanted
        for name in wanted - read.malformed.keys():
            self._overrides.pop(name, None)
            self._unknown.discard(name)
        self._adopt(read)
        return {
            name: before[name]
            for name in wanted
            if self._overrides.get(name, {}) != before[name]
            or (name in self._unknown) != (name in were_unknown)
        }

    def _adopt(self, read: TopicOverrides) -> None:
        self._overrides |= read.found
        for name, reason in read.malformed.items():
            # Overrides that are known stay.
            if name not in self._overrides:
                self._unknown.add(name)
            log.error("config.ignored", topic=name, errors=[reason])

    def log_config(self, topic: str) -> LogConfig:
        """Return the configs of a topic's logs; an illegal override is left out.

        A topic whose overrides are unknown loses no records: the default retention may be short.
        """
        overrides, defaults = self._overrides.get(topic), self._defaults()
        if topic in self._unknown:
            return defaults.without_deletion()
        if not overrides:
            return defaults
        try:
            return LogConfig.from_properties(overrides, defaults)
        except ValueError:
            config, errors = LogConfig.from_stored(overrides, defaults)
            log.error("config.ignored", topic=topic, errors=errors)
            return config

    async def read(self, topic: str) -> Overrides:
        """Read the current overrides of `topic`.

        Raises:
            ApiError: the coordinator does not respond.
        """
        return await self._nodes.read(f"{KIND}/{topic}")

    def listen(self, on_change: Callable[[str, Overrides], None]) -> None:
        """Call `on_change` with every topic whose overrides change from now on."""
        self._on_change = on_change

    async def _on_changed(self, topics: Sequence[str]) -> None:
        changed = await self._read_again(topics)
        for name in topics:
            before = self._unannounced.pop(name, changed.get(name))
            if before is not None:
                overrides = self._overrides.get(name, {})
                log.info("config.changed", topic=name, keys=changed_keys(before, overrides))
                self._notify(name, overrides)

    def _notify(self, topic: str, overrides: Overrides) -> None:
        try:
            self._on_change(topic, overrides)
        except Exception:
            # The logs of the other topics must still get their configs.
            log.exception("config.not_adopted", entity=f"{KIND}/{topic}")
