"""Notifications of changes that every broker reads (decision).

A change is announced by a notification: a sequential znode below a parent that every broker
watches. Each broker that reads notifications deletes the expired ones: older than `EXPIRY_MS` by
its own clock, and older by that time than the newest one.

Source: kafka.common.ZkNodeChangeNotificationListener.
"""

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import UNREADABLE_VERSION, Delete, Plan, list_children, read, write

NO_CHANGE: Final = -1
EXPIRY_MS: Final = 15 * 60 * 1000

T = TypeVar("T")


class Changes(NamedTuple, Generic[T]):
    """Announced changes, in order, and the sequence number of the last notification."""

    announced: tuple[T, ...]
    last_number: int


def take_changes(
    prefix: str, decode: Callable[[bytes | None], T], last_number: int, now_ms: int
) -> Plan[Changes[T]]:
    """Return the changes announced after notification `last_number`; delete expired notifications.

    `prefix` is the path of a notification without its number. A malformed notification is skipped.
    A notification that this broker may not read is left to the others, as its age is unknown. Sets
    a watch for the next notification.
    """
    parent, _, name_prefix = prefix.rpartition("/")
    names = yield from list_children(parent, watch=True)
    numbers = {number: name for name in names if (number := _number(name, name_prefix)) is not None}
    ordered = sorted(numbers)
    nodes = yield from read([f"{parent}/{numbers[number]}" for number in ordered])
    # The clock of this broker may differ from the one that stamps znodes. If it alone decided, a
    # broker whose clock is ahead would delete notifications before the others have read them.
    readable = (node for node in nodes if node is not None and node.version != UNREADABLE_VERSION)
    newest_ms = max((node.created_ms for node in readable), default=now_ms)
    expired_before_ms = min(now_ms, newest_ms) - EXPIRY_MS
    announced: dict[T, None] = {}
    expired: list[str] = []
    for number, node in zip(ordered, nodes, strict=True):
        if node is None or node.version == UNREADABLE_VERSION:
            continue
        if node.created_ms < expired_before_ms:
            expired.append(f"{parent}/{numbers[number]}")
        if number > last_number:
            try:
                announced[decode(node.data)] = None
            except MalformedZnodeError:
                continue
    yield from write([(Delete(path),) for path in expired])
    return Changes(tuple(announced), max(numbers, default=last_number))


def _number(name: str, prefix: str) -> int | None:
    """Return the sequence number of a notification; None for a znode of another kind."""
    digits = name.removeprefix(prefix)
    return int(digits) if name.startswith(prefix) and digits.isdecimal() else None
