"""Dynamic configs of brokers in the coordinator's nodes (edge).

`/config/brokers/<id>` is for one broker, `/config/brokers/<default>` for all. Both are read at the
start, before any component is built, and again whenever a notification names them. An illegal value
is logged and ignored. A malformed node is, too, but not at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from broker.config.broker_config import BrokerConfig
from broker.config.config_change import changed_keys
from broker.config.dynamic_config import DynamicConfig
from broker.errors import StartupError
from broker.live_configs.config_nodes import ConfigNodes
from clusterstate.config_requests import read_config
from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes import paths
from clusterstate.znodes.paths import DEFAULT_ENTITY
from kafkawire.ids import BrokerId

KIND: Final = "brokers"

log = structlog.get_logger(__name__)


class BrokerConfigs:
    """Keeps `config` up to date with the nodes."""

    def __init__(self, nodes: ConfigNodes, config: DynamicConfig, broker_id: BrokerId) -> None:
        self._nodes = nodes
        self._config = config
        self._own_name = str(broker_id)
        self._on_change: Callable[[BrokerConfig, BrokerConfig], None] = lambda _old, _new: None
        self._on_own_changed: Callable[[BrokerConfig], None] = lambda _config: None
        # As of the last call of `_on_change` that succeeded.
        self._applied = config.current
        self._applied_overrides = self._overrides()
        nodes.on_change(KIND, self._on_changed)

    async def load(self) -> None:
        """Read the overrides that were set before this start.

        Raises:
            StartupError: a node holds no config. Without its retention, logs would lose records.
        """
        for name in (DEFAULT_ENTITY, self._own_name):
            malformed = await self._read(name)
            if malformed is not None:
                path = paths.config(f"{KIND}/{name}")
                raise StartupError(f"{path} holds no config, correct or delete it: {malformed}")

    def listen(
        self,
        on_change: Callable[[BrokerConfig, BrokerConfig], None],
        on_own_changed: Callable[[BrokerConfig], None],
    ) -> None:
        """Call `on_change` with the old and the new config after each change.

        Each time the broker's own overrides are set, even to the same values, `on_own_changed` is
        called as well: files may have changed. A change that `on_change` fails to apply is part of
        the next one.
        """
        self._on_change, self._on_own_changed = on_change, on_own_changed
        self._applied, self._applied_overrides = self._config.current, self._overrides()

    async def _on_changed(self, names: Sequence[str]) -> None:
        for name in names:
            if name in (DEFAULT_ENTITY, self._own_name):
                await self._read(name)
        # Not compared with the config before these reads: of an earlier call, whose second read
        # failed, the first one counts, too.
        after, overrides = self._config.current, self._overrides()
        if after != self._applied:
            keys = changed_keys(self._applied_overrides, overrides)
            log.info("config.changed", broker_id=self._own_name, keys=keys)
            self._on_change(self._applied, after)
        self._applied, self._applied_overrides = after, overrides
        if self._own_name in names:
            self._on_own_changed(after)

    def _overrides(self) -> dict[str, str]:
        return {**self._config.shared, **self._config.own}

    async def _read(self, name: str) -> str | None:
        """Adopt the overrides of an entity; if its node is malformed, keep them and return why."""
        try:
            configs = await self._nodes.session.run(read_config(f"{KIND}/{name}"))
        except MalformedZnodeError as error:
            log.error("config.ignored", broker_id=name, error=str(error))
            return str(error)
        adopt = self._config.adopt_shared if name == DEFAULT_ENTITY else self._config.adopt_own
        for reason in adopt(configs):
            log.error("config.ignored", broker_id=name, error=reason)
        return None
