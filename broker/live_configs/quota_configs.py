"""The quotas of users, clients and addresses, in the coordinator's nodes (edge)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from broker.live_configs.config_nodes import ConfigNodes
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QuotaEntity, quotas_of
from clusterstate.config_requests import read_config, read_entity_paths
from clusterstate.errors import MalformedZnodeError

KINDS: Final = ("users", "clients", "ips")
ENFORCED: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE})

log = structlog.get_logger(__name__)


class QuotaConfigs:
    """Keeps `quotas` up to date with the nodes."""

    def __init__(self, nodes: ConfigNodes, quotas: ClientQuotas) -> None:
        self._nodes = nodes
        self._quotas = quotas
        # Of the nodes that hold any.
        self._paths: set[str] = set()
        for kind in KINDS:
            nodes.on_change(kind, partial(self._on_changed, kind), self._paths)

    async def load(self) -> None:
        """Read all quotas."""
        for path in await self._nodes.session.run(read_entity_paths(KINDS)):
            await self._read(path)

    async def read_all(self) -> dict[QuotaEntity, Mapping[str, float]]:
        """Return all current quotas.

        Raises:
            ApiError: the coordinator does not respond.
        """
        found: dict[QuotaEntity, Mapping[str, float]] = {}
        for path in await self._nodes.paths(KINDS):
            entity = QuotaEntity.at(path)
            quotas = quotas_of(await self._nodes.read(path))
            if entity is not None and quotas:
                found[entity] = quotas
        return found

    async def _on_changed(self, kind: str, names: Sequence[str]) -> None:
        for name in names:
            await self._read(f"{kind}/{name}")

    async def _read(self, path: str) -> None:
        entity = QuotaEntity.at(path)
        if entity is None:
            return
        try:
            configs = await self._nodes.session.run(read_config(path))
        except MalformedZnodeError as error:
            log.error("config.ignored", entity=path, error=str(error))
            return
        quotas = quotas_of(configs)
        self._paths.discard(path)
        if quotas:
            self._paths.add(path)
        if not self._quotas.set(entity, quotas):
            return
        if ignored := sorted(quotas.keys() - ENFORCED):
            # Kafka brokers in the same cluster may enforce them.
            log.warning("quota.not_enforced", entity=path, keys=ignored)
        log.info("quota.changed", entity=path, quotas=quotas)
