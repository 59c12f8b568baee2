"""Configs of topics, brokers and clients in the coordinator's nodes, and their changes (edge).

The nodes are authoritative. Each change is announced by a notification. A component that caches
configs registers for a kind of entity, and reads the announced entities again. Invariants:
notifications are handled one after the other, so an older read never replaces a newer one; a
notification counts as handled when all registered components have read, so none is missed when a
session expires meanwhile; after a lost session or a refused read everything is read again, because
notifications expire. An entity that a component fails to adopt is logged, and stops no other one,
as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.node_watch import NodeWatch
from broker.cluster.notified_reads import NotifiedReads
from clusterstate.change_notifications import NO_CHANGE
from clusterstate.config_requests import (
    change_config,
    read_config,
    read_entity_paths,
    take_config_changes,
)
from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes import paths
from coordination.errors import OperationError
from kafkawire.errors import ApiError, ErrorCode

Configs = Mapping[str, str]
OnChange = Callable[[Sequence[str]], Awaitable[None]]

log = structlog.get_logger(__name__)


class ConfigNodes:
    """Reads and changes configs of any entity, such as `topics/orders`."""

    def __init__(self, session: CoordinatorSession, now_ms: Callable[[], int]) -> None:
        self.session = session
        self._now_ms = now_ms
        self._last_number = NO_CHANGE
        self._reads = NotifiedReads(session)
        self._on_change: dict[str, list[OnChange]] = {}
        self._cached: list[Set[str]] = []
        self._watch = NodeWatch(session, paths.CONFIG_CHANGES, self._handle_notifications)

    async def catch_up(self) -> None:
        """Skip the notifications so far; call this before configs are read and cached."""
        async with self._reads.begin():
            taken = await self.session.run(take_config_changes(self._last_number, self._now_ms()))
            self._last_number = taken.last_number

    def on_change(self, kind: str, callback: OnChange, cached: Set[str] = frozenset()) -> None:
        """Call `callback` with the changed entities of a kind, such as `topics`.

        `cached` holds the paths of the entities whose configs the component has, at any time. After
        a lost session they count as changed even without a node, which may have been deleted.
        """
        self._on_change.setdefault(kind, []).append(callback)
        self._cached.append(cached)

    def listen(self) -> None:
        """Follow all changes from now on."""
        self._watch.start()

    async def stop(self) -> None:
        """Stop following changes."""
        await self._watch.stop()

    async def read(self, entity_path: str) -> Configs:
        """Read the current overrides of an entity.

        Raises:
            ApiError: the coordinator does not respond.
        """
        try:
            return await self.session.run(read_config(entity_path))
        except (OperationError, MalformedZnodeError) as error:
            raise _unavailable(error) from error

    async def paths(self, kinds: Iterable[str]) -> list[str]:
        """Return the path of every entity of `kinds` that has a node now.

        Raises:
            ApiError: the coordinator does not respond.
        """
        try:
            return await self.session.run(read_entity_paths(kinds))
        except OperationError as error:
            raise _unavailable(error) from error

    async def change(self, entity_path: str, change: Callable[[Configs], Configs]) -> Configs:
        """Replace an entity's overrides by the result of `change`; return that.

        This broker has applied it when this returns; others will soon.

        Raises:
            ApiError: from `change`, or because the coordinator does not respond.
        """
        try:
            changed = await self.session.run(change_config(entity_path, change))
            await self._handle_notifications()
            return changed
        except (OperationError, MalformedZnodeError) as error:
            raise _unavailable(error) from error

    async def _handle_notifications(self) -> None:
        async with self._reads.begin() as reads_all:
            # This sets the watch, so every later change is announced to this broker.
            taken = await self.session.run(take_config_changes(self._last_number, self._now_ms()))
            changed: Iterable[str] = taken.announced
            if reads_all:
                every = await self.session.run(read_entity_paths(self._on_change))
                # Kafka deletes the node of a user or quota when its last config is removed.
                gone = sorted({path for each in self._cached for path in each}.difference(every))
                changed = dict.fromkeys((*every, *gone, *taken.announced))
            announced: dict[str, list[str]] = {}
            for path in changed:
                kind, _, name = path.partition("/")
                announced.setdefault(kind, []).append(name)
            for kind, names in announced.items():
                for callback in self._on_change.get(kind, ()):
                    await _notify(callback, kind, names)
            self._last_number = taken.last_number


async def _notify(callback: OnChange, kind: str, names: Sequence[str]) -> None:
    try:
        await callback(names)
    except OperationError:
        # The watch reads all of them again.
        raise
    except Exception:
        if len(names) == 1:
            # A bug with one entity, or its name, must not end the changes of all others.
            log.exception("config.not_adopted", entity=f"{kind}/{names[0]}")
            return
    else:
        return
    # One of them has failed, and the callback may not have come to the rest.
    for name in names:
        await _notify(callback, kind, (name,))


def _unavailable(error: Exception) -> ApiError:
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the coordinator did not respond: {error}")
