"""Effects that plans request, and their answers (decision).

A plan is a generator: it yields an `Effect`, receives the answer, and repeats until it returns. It
has no connection, clock or source of randomness. The same plan therefore runs against a real
coordinator and in a simulation that can stop it between any two effects.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, TypeAlias, TypeVar

from controller.events import Event
from controller.znodes.registration import Registration
from kafkawire.ids import BrokerId
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.messages.stop_replica import StopReplicaRequest
from kafkawire.messages.update_metadata import UpdateMetadataRequest


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


ControlRequest: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class BrokerRequest(NamedTuple):
    """A request for one incarnation of a broker."""

    broker_id: BrokerId
    broker_epoch: int
    message: ControlRequest


@dataclass(frozen=True, slots=True)
class Send:
    """Queue requests to their brokers, in this order; there is no answer."""

    requests: tuple[BrokerRequest, ...]


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a channel to an incarnation of a broker, and drop the requests to an earlier one."""

    registration: Registration
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the channels to `brokers` and drop their requests; None means all brokers."""

    brokers: tuple[BrokerId, ...] | None = None


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Queue an event for the controller after `delay_ms`.

    Pending timers are dropped when the controller resigns.
    """

    event: Event
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait until the brokers have handled the requests sent before.

    The plan continues `duration_ms` after all reachable brokers have responded to every request.
    The wait for responses is limited to `timeout_ms`, for brokers that hang.
    """

    duration_ms: int
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """Event for the state-change log."""

    event: str
    fields: Mapping[str, object] = field(default_factory=dict)


Effect: TypeAlias = (
    Read | ListChildren | Write | Send | Connect | Disconnect | Enqueue | Pause | Note
)


class Nodes(NamedTuple):
    """Nodes at the paths of a Read, in its order; None for a missing znode."""

    nodes: tuple[Node | None, ...]


class Children(NamedTuple):
    """Names found by ListChildren; empty if the znode does not exist."""

    names: tuple[str, ...]


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
    """Return the names below `path`, unordered."""
    answer = yield ListChildren(path, watch)
    assert isinstance(answer, Children), "ListChildren is answered with Children"
    return answer.names


def write(transactions: Sequence[Transaction]) -> Plan[tuple[Outcome, ...]]:
    """Apply transactions and return the outcome of each."""
    if not transactions:
        return ()
    answer = yield Write(tuple(transactions))
    assert isinstance(answer, Outcomes), "a Write is answered with Outcomes"
    return answer.outcomes
