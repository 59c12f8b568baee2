"""Plans that read and write the cluster's state, and their effects (decision).

A plan is a generator: it yields an `Effect`, receives the answer, and repeats until it returns. It
has no connection, clock or source of randomness. The same plan therefore runs against a real
coordinator and in a simulation that can stop it between any two effects. The controller's plans
have further effects (`controller.effects`) and include the plans of this package.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias, TypeVar

from coordination.errors import ErrorCode, OperationError

MAX_ATTEMPTS: Final = 16
"""Attempts of a plan to change a znode that others change at the same time."""


UNREADABLE: Final = b"\xff"
"""Data of a znode that this broker may not read. No decoder accepts it, so it counts as malformed
and does not stop the work on other znodes."""
UNREADABLE_VERSION: Final = -2
"""Version of such a znode. No znode has it, so a plan does not overwrite unknown data."""


class Node(NamedTuple):
    """A znode as read; `czxid` grows with every creation and is never reused."""

    data: bytes | None
    version: int
    czxid: int
    ephemeral_owner: int = 0
    created_ms: int = 0


class Create(NamedTuple):
    """Create a znode; an `ephemeral` one is deleted at the end of the session.

    The coordinator appends an increasing number to the path of a `sequential` one.
    """

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace a znode's data if it has `version`; -1 matches any."""

    path: str
    data: bytes | None
    version: int


class Delete(NamedTuple):
    """Delete a znode if it has `version`; -1 matches any."""

    path: str
    version: int = -1


class Check(NamedTuple):
    """Refuse the transaction unless the znode has `version`."""

    path: str
    version: int


Op: TypeAlias = Create | SetData | Delete | Check
Transaction: TypeAlias = tuple[Op, ...]


class Refusal(Enum):
    """Reason for which an operation of a transaction was refused."""

    BAD_VERSION = auto()
    NO_NODE = auto()
    NODE_EXISTS = auto()
    NOT_EMPTY = auto()
    TOO_LARGE = auto()
    """The transaction exceeds the coordinator's size limit."""
    OTHER = auto()


class Outcome(NamedTuple):
    """Result of one transaction.

    Either all of it was applied, and `versions` holds each znode's new version; or none of it,
    because the operation at `refused_at` was refused.
    """

    versions: tuple[int, ...] = ()
    refusal: Refusal | None = None
    refused_at: int = -1


@dataclass(frozen=True, slots=True)
class Read:
    """Read znodes; the answer is `Nodes`.

    With `watch`, the next change, creation or deletion of each sends one notification.
    """

    paths: tuple[str, ...]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ListChildren:
    """List the names below a znode; the answer is `Children`.

    With `watch`, the next change of the list sends one notification.
    """

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Apply transactions in order, each atomically; the answer is `Outcomes`.

    Transactions lost with a connection are retried. A retried transaction may be refused because
    its first copy was already applied.
    """

    transactions: tuple[Transaction, ...]


Effect: TypeAlias = Read | ListChildren | Write


class Nodes(NamedTuple):
    """Nodes at the paths of a Read, in its order; None for a missing znode."""

    nodes: tuple[Node | None, ...]


class Children(NamedTuple):
    """Names found by ListChildren; empty if the znode does not exist.

    None if this broker may not read the znode; no watch is then set.
    """

    names: tuple[str, ...] | None


class Outcomes(NamedTuple):
    """Outcomes of the transactions of a Write, in its order."""

    outcomes: tuple[Outcome, ...]


Answer: TypeAlias = Nodes | Children | Outcomes | None
_T = TypeVar("_T")
Plan: TypeAlias = Generator[Effect, Answer, _T]


def read(paths: Sequence[str], *, watch: bool = False) -> Plan[tuple[Node | None, ...]]:
    """Return the nodes at `paths`."""
    if not paths:
        return ()
    answer = yield Read(tuple(paths), watch)
    assert isinstance(answer, Nodes), "a Read is answered with Nodes"
    return answer.nodes


def list_children(path: str, *, watch: bool = False) -> Plan[tuple[str, ...]]:
    """Return the names below `path`, unordered.

    Raises:
        NoAuthError: this broker may not read the znode.
    """
    answer = yield ListChildren(path, watch)
    assert isinstance(answer, Children), "ListChildren is answered with Children"
    if answer.names is None:
        raise OperationError.of(ErrorCode.NO_AUTH, path)
    return answer.names


def write(transactions: Sequence[Transaction]) -> Plan[tuple[Outcome, ...]]:
    """Apply transactions and return the outcome of each."""
    if not transactions:
        return ()
    answer = yield Write(tuple(transactions))
    assert isinstance(answer, Outcomes), "a Write is answered with Outcomes"
    return answer.outcomes
