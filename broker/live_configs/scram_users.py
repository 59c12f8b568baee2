"""The SCRAM credentials of users, in the coordinator's nodes (edge)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from broker.live_configs.config_nodes import ConfigNodes
from broker.quotas.entity import USER, QuotaEntity
from clusterstate.config_requests import read_config, read_entity_paths
from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.scram_credential import decode_credentials
from kafkawire.scram import Credential

KIND: Final = "users"

log = structlog.get_logger(__name__)


class ScramUsers:
    """Keeps the credentials up to date with the nodes. A malformed one denies the login."""

    def __init__(self, nodes: ConfigNodes) -> None:
        self._nodes = nodes
        self._by_user: dict[str, dict[str, Credential]] = {}
        # Of the nodes that hold them.
        self._paths: set[str] = set()
        nodes.on_change(KIND, self._on_changed, self._paths)

    def credential(self, mechanism: str, user: str) -> Credential | None:
        """Return a user's credential; None without one."""
        return self._by_user.get(user, {}).get(mechanism)

    async def load(self) -> None:
        """Read all credentials."""
        for path in await self._nodes.session.run(read_entity_paths((KIND,))):
            await self._read(path)

    async def read_all(self) -> dict[str, dict[str, Credential]]:
        """Return the current credentials of every user that has any.

        Raises:
            ApiError: the coordinator does not respond.
        """
        found = {}
        for path in await self._nodes.paths((KIND,)):
            user = user_at(path)
            credentials = _decoded(path, await self._nodes.read(path)) if user else {}
            if user and credentials:
                found[user] = credentials
        return found

    async def _on_changed(self, names: Sequence[str]) -> None:
        for name in names:
            await self._read(f"{KIND}/{name}")

    async def _read(self, path: str) -> None:
        user = user_at(path)
        if not user:
            return
        try:
            credentials = _decoded(path, await self._nodes.session.run(read_config(path)))
        except MalformedZnodeError as error:
            log.error("user.credentials_ignored", entity=path, error=str(error))
            credentials = {}
        before = self._by_user.pop(user, {})
        self._paths.discard(path)
        if credentials:
            self._paths.add(path)
            self._by_user[user] = credentials
        if credentials != before:
            log.info("user.credentials_changed", entity=path, mechanisms=sorted(credentials))


def user_at(path: str) -> str | None:
    """Return the user with configs at `path`; None for another entity, or the default user."""
    entity = QuotaEntity.at(path)
    if entity is None or len(entity.names) > 1 or entity.names[0][0] != USER:
        return None
    return entity.names[0][1] or None


def _decoded(path: str, configs: Mapping[str, str]) -> dict[str, Credential]:
    found: dict[str, Credential] = {}
    for mechanism, text in configs.items():
        try:
            found |= decode_credentials({mechanism: text})
        except MalformedZnodeError as error:
            log.error(
                "user.credentials_ignored", entity=path, mechanism=mechanism, error=str(error)
            )
    return found
