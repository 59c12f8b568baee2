"""Watches of the server (decision).

A watcher is any hashable object (a connection). There are two tables, as in ZooKeeper: data watches
(exists, getData) and child watches (getChildren). A one-shot watch ends when it fires or with its
connection, a persistent one only with its connection. Persistent and recursive watches are in both
tables. Recursive ones get the events of all descendants, except NODE_CHILDREN_CHANGED; if only
their data part is removed, deletions are left.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from coordination.errors import ErrorCode, OperationError
from coordination.protocol import node_path
from coordination.protocol.messages import AddWatchMode, EventType, WatcherType
from coordination.server.state.txns import CreateTxn, DeleteTxn, NodeTxn, SetDataTxn

W = TypeVar("W", bound=Hashable)

# Bound once, because member lookup in an enum runs Python code.
_CREATED: Final = EventType.NODE_CREATED
_DELETED: Final = EventType.NODE_DELETED
_DATA_CHANGED: Final = EventType.NODE_DATA_CHANGED
_CHILDREN_CHANGED: Final = EventType.NODE_CHILDREN_CHANGED

MAX_REMOVALS: Final = 2_000
"""Watches of a lost connection that are removed at once: a few milliseconds."""


class Mode:
    """Modes of a watcher on a path: bits, of which several may be set."""

    # Plain numbers, because one request may set ten thousand watches, and the operators of an
    # `IntFlag` took two thirds of the time.

    NONE: Final = 0
    ONE_SHOT: Final = 1
    PERSISTENT: Final = 2
    RECURSIVE: Final = 4


class WatchTable(Generic[W]):
    """One of the two tables. Invariant: `_by_path` and `_by_watcher` mirror each other."""

    def __init__(self) -> None:
        self._by_path: dict[str, dict[W, int]] = {}
        self._by_watcher: dict[W, set[str]] = {}
        # Number of recursive watches per length of the path.
        self._recursive_lengths: Counter[int] = Counter()

    @property
    def watch_count(self) -> int:
        """Number of (watcher, path) pairs."""
        return sum(len(found) for found in self._by_watcher.values())

    def add(self, path: str, watcher: W, mode: int) -> None:
        """Add `mode` to the modes of `watcher` on `path`.

        Raises:
            BadArgumentsError: no node can have such a long path.
        """
        if len(path) > node_path.MAX_CHARS:
            raise OperationError.of(ErrorCode.BAD_ARGUMENTS, path)
        modes = self._by_path.setdefault(path, {})
        before = modes.get(watcher, Mode.NONE)
        if mode & ~before & Mode.RECURSIVE:
            self._recursive_lengths[len(path)] += 1
        modes[watcher] = before | mode
        self._by_watcher.setdefault(watcher, set()).add(path)

    def has(self, path: str, watcher: W) -> bool:
        """Whether `watcher` has a watch on `path` in this table."""
        return watcher in self._by_path.get(path, ())

    def remove(self, path: str, watcher: W) -> bool:
        """Remove all watches of `watcher` on `path`; return whether there were any."""
        if not self.has(path, watcher):
            return False
        self._set_mode(path, watcher, Mode.NONE)
        return True

    def remove_watcher(self, watcher: W, limit: int) -> bool:
        """Remove up to `limit` watches of a lost connection; return whether none is left."""
        watched = self._by_watcher.get(watcher, set())
        for _ in range(min(limit, len(watched))):
            self._set_mode(watched.pop(), watcher, Mode.NONE)
        return watcher not in self._by_watcher

    def fire(self, path: str, *, has_recursive: bool = True) -> list[W]:
        """Return the watchers to notify of a change at `path`; remove one-shot watches.

        Recursive watches do not count unless the event `has_recursive` watchers.
        """
        watchers: list[W] = []
        for watcher, mode in list(self._by_path.get(path, {}).items()):
            if has_recursive or mode != Mode.RECURSIVE:
                watchers.append(watcher)
            if mode & Mode.ONE_SHOT:
                self._set_mode(path, watcher, mode & ~Mode.ONE_SHOT)
        if has_recursive and self._recursive_lengths:
            watchers += self._recursive_above(path)
        return list(dict.fromkeys(watchers))

    def _recursive_above(self, path: str) -> Iterator[W]:
        # A path may be deep, while recursive watches usually have few different lengths.
        is_deep = path.count("/") > len(self._recursive_lengths)
        for above in self._watched_prefixes(path) if is_deep else _ancestors(path):
            for watcher, mode in self._by_path.get(above, {}).items():
                if mode & Mode.RECURSIVE:
                    yield watcher

    def _watched_prefixes(self, path: str) -> Iterator[str]:
        """Yield the ancestors of `path` that are as long as the path of a recursive watch."""
        for length in self._recursive_lengths:
            if length < len(path) and (length == 1 or path[length] == "/"):
                yield path[:length]

    def _set_mode(self, path: str, watcher: W, mode: int) -> None:
        modes = self._by_path[path]
        if modes[watcher] & ~mode & Mode.RECURSIVE:
            self._recursive_lengths[len(path)] -= 1
            if not self._recursive_lengths[len(path)]:
                del self._recursive_lengths[len(path)]
        if mode:
            modes[watcher] = mode
            return
        del modes[watcher]
        if not modes:
            del self._by_path[path]
        watched = self._by_watcher[watcher]
        watched.discard(path)
        if not watched:
            del self._by_watcher[watcher]

    def by_path(self) -> dict[str, dict[W, int]]:
        """Return the table for `wchp`; read only."""
        return self._by_path

    def by_watcher(self) -> dict[W, set[str]]:
        """Return the table for `wchc`; read only."""
        return self._by_watcher


class Watches(Generic[W]):
    """Both tables, and the order in which a transaction fires their watches."""

    def __init__(self) -> None:
        self.data: WatchTable[W] = WatchTable()
        self.children: WatchTable[W] = WatchTable()

    def add(self, path: str, watcher: W, mode: AddWatchMode) -> None:
        """Add a persistent watch."""
        is_recursive = mode is AddWatchMode.PERSISTENT_RECURSIVE
        added = Mode.RECURSIVE if is_recursive else Mode.PERSISTENT
        self.data.add(path, watcher, added)
        self.children.add(path, watcher, added)

    def has(self, path: str, watcher: W, kind: WatcherType) -> bool:
        """Whether `watcher` has a watch of `kind` on `path`."""
        return any(table.has(path, watcher) for table in self._tables(kind))

    def remove(self, path: str, watcher: W, kind: WatcherType) -> bool:
        """Remove watches of `kind`; return whether there were any."""
        removed = [table.remove(path, watcher) for table in self._tables(kind)]
        return any(removed)

    def remove_watcher(self, watcher: W, limit: int = MAX_REMOVALS) -> bool:
        """Remove up to `limit` watches of a lost connection per table; return whether none is left.

        One client may set a million watches, whose removal takes seconds.
        """
        tables = (self.data, self.children)
        return all(table.remove_watcher(watcher, limit) for table in tables)

    def _tables(self, kind: WatcherType) -> Iterable[WatchTable[W]]:
        if kind is WatcherType.DATA:
            return (self.data,)
        if kind is WatcherType.CHILDREN:
            return (self.children,)
        return (self.data, self.children)

    def fire(self, txn: NodeTxn) -> list[tuple[EventType, str, list[W]]]:
        """Return the events of one change with their watchers, in the order of delivery."""
        if isinstance(txn, SetDataTxn):
            return _event(_DATA_CHANGED, txn.path, self.data.fire(txn.path))
        if isinstance(txn, CreateTxn):
            return [
                *_event(_CREATED, txn.path, self.data.fire(txn.path)),
                *self._parent_event(txn.path),
            ]
        if isinstance(txn, DeleteTxn):
            return self._deleted(txn.path)
        return []

    def _deleted(self, path: str) -> list[tuple[EventType, str, list[W]]]:
        # A connection gets one event for a deletion, even with a watch in both tables.
        watchers = list(dict.fromkeys([*self.data.fire(path), *self.children.fire(path)]))
        return [*_event(_DELETED, path, watchers), *self._parent_event(path)]

    def _parent_event(self, path: str) -> list[tuple[EventType, str, list[W]]]:
        parent = node_path.parent_of(path) or node_path.ROOT
        watchers = self.children.fire(parent, has_recursive=False)
        return _event(_CHILDREN_CHANGED, parent, watchers)


def _ancestors(path: str) -> Iterator[str]:
    while path != node_path.ROOT:
        path = node_path.parent_of(path) or node_path.ROOT
        yield path


def _event(kind: EventType, path: str, watchers: list[W]) -> list[tuple[EventType, str, list[W]]]:
    return [(kind, path, watchers)] if watchers else []
