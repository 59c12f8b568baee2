"""Watches of a client (decision): callbacks per path, and requests to set them again.

Paths are the server's (with chroot). A one-shot callback is dropped when an event triggers it; a
persistent one stays until it is removed. Expiry of the session drops all.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from coordination.protocol.messages import EventType, SetWatches2Request, SetWatchesRequest

REARM_BATCH_BYTES: Final = 128 * 1024
REARM_BATCH_PATHS: Final = 5_000


class WatchEvent(NamedTuple):
    """Notification of a change at `path`, relative to the chroot."""

    type: EventType
    path: str


Callback: TypeAlias = Callable[[WatchEvent], None]


class Kind(Enum):
    """Kind of a watch; the first three are one-shot."""

    DATA = "the node exists; its data may change, or it may be deleted"
    EXIST = "the node is missing and may be created"
    CHILD = "children may be created or deleted"
    PERSISTENT = "all changes of the node"


_ONE_SHOT_OF: Final = {
    EventType.NODE_CREATED: (Kind.DATA, Kind.EXIST),
    EventType.NODE_DATA_CHANGED: (Kind.DATA, Kind.EXIST),
    EventType.NODE_DELETED: (Kind.DATA, Kind.EXIST, Kind.CHILD),
    EventType.NODE_CHILDREN_CHANGED: (Kind.CHILD,),
}


class WatchRegistry:
    """All watches of a session."""

    def __init__(self) -> None:
        self._callbacks: dict[Kind, dict[str, list[Callback]]] = {kind: {} for kind in Kind}

    def add(self, kind: Kind, path: str, callback: Callback) -> None:
        """Register a callback; registered twice for one path, it is called once."""
        registered = self._callbacks[kind].setdefault(path, [])
        if callback not in registered:
            registered.append(callback)

    def hit(self, event: EventType, path: str) -> list[Callback]:
        """Return the callbacks of an event, and drop the one-shot ones."""
        found: list[Callback] = []
        for kind in _ONE_SHOT_OF[event]:
            found += self._callbacks[kind].pop(path, [])
        found += self._callbacks[Kind.PERSISTENT].get(path, [])
        return list(dict.fromkeys(found))

    def remove(self, path: str) -> None:
        """Drop all callbacks on `path`."""
        for registered in self._callbacks.values():
            registered.pop(path, None)

    def clear(self) -> None:
        """Drop all callbacks, because the session is gone."""
        for registered in self._callbacks.values():
            registered.clear()

    def rearm(self, relative_zxid: int) -> Iterator[SetWatchesRequest | SetWatches2Request]:
        """Yield the requests that set all watches again on a new connection."""
        has_persistent = bool(self._callbacks[Kind.PERSISTENT])
        batch: dict[Kind, list[str]] = {kind: [] for kind in Kind}
        size_bytes = path_count = 0
        for kind, path in self._watched():
            if size_bytes + len(path) > REARM_BATCH_BYTES or path_count == REARM_BATCH_PATHS:
                yield _request(relative_zxid, batch, has_persistent)
                batch, size_bytes, path_count = {each: [] for each in Kind}, 0, 0
            batch[kind].append(path)
            size_bytes += len(path)
            path_count += 1
        if path_count:
            yield _request(relative_zxid, batch, has_persistent)

    def _watched(self) -> Iterator[tuple[Kind, str]]:
        for kind, registered in self._callbacks.items():
            for path in registered:
                yield kind, path


def _request(
    relative_zxid: int, batch: dict[Kind, list[str]], has_persistent: bool
) -> SetWatchesRequest | SetWatches2Request:
    one_shot = (batch[Kind.DATA], batch[Kind.EXIST], batch[Kind.CHILD])
    if not has_persistent:
        # The older operation, which every server since ZooKeeper 3.4 supports.
        return SetWatchesRequest(relative_zxid, *one_shot)
    return SetWatches2Request(relative_zxid, *one_shot, batch[Kind.PERSISTENT], ())
