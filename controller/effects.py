"""What the controller wants done, and how it learns what came of it (decision).

A plan is a generator: it yields an `Effect`, is sent the answer, and so on until it returns. It
holds no connection, clock or dice, so that the same plan runs over a real coordinator and in a
simulation that stops it between any two effects.
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
    """A node as it was read. `czxid` orders creations over the whole life of the coordinator."""

    data: bytes | None
    version: int
    czxid: int
    ephemeral_owner: int = 0
    created_ms: int = 0


class Create(NamedTuple):
    """Create a node; it ends with the session if `ephemeral`.

    The coordinator completes the path of a `sequential` one with a number that only grows.
    """

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace a node's data if it has `version`; -1 has any."""

    path: str
    data: bytes | None
    version: int


class Delete(NamedTuple):
    """Delete a node if it has `version`; -1 has any."""

    path: str
    version: int = -1


class Check(NamedTuple):
    """Let the transaction fail unless the node has `version`."""

    path: str
    version: int


Op: TypeAlias = Create | SetData | Delete | Check
Transaction: TypeAlias = tuple[Op, ...]


class Refusal(Enum):
    """Why an operation of a transaction was refused."""

    BAD_VERSION = auto()
    NO_NODE = auto()
    NODE_EXISTS = auto()
    NOT_EMPTY = auto()
    TOO_LARGE = auto()
    """No coordinator takes a transaction of this size."""
    OTHER = auto()


class Outcome(NamedTuple):
    """What became of one transaction.

    All of it was applied, and `versions` holds each node's new version; or nothing was, because
    the operation at `index` was refused.
    """

    versions: tuple[int, ...] = ()
    refusal: Refusal | None = None
    refused_at: int = -1


@dataclass(frozen=True, slots=True)
class Read:
    """Read nodes; the answer is `Nodes`. With `watch`, a change, creation or deletion of any is
    told later, once."""

    paths: tuple[str, ...]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ListChildren:
    """List the names below a node; the answer is `Children`. With `watch`, a change is told."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Apply each transaction, atomic by itself, in order; the answer is `Outcomes`.

    Whoever performs it retries what was lost on the way, so that a transaction may be refused for
    what its own first copy has done.
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
    """Queue requests, each for its broker, in this order; there is no answer to wait for."""

    requests: tuple[BrokerRequest, ...]


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a channel to this incarnation of a broker; what waits for an older one is dropped."""

    registration: Registration
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the channels to these brokers and drop what waits in them; None means all."""

    brokers: tuple[BrokerId, ...] | None = None


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Let the controller process an event after this one, and not before `delay_ms` have passed.

    Timers of an earlier controller epoch of this broker are dropped when it resigns.
    """

    event: Event
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Rest:
    """Let what was sent be done first, on few processors.

    Go on `duration_ms` after the brokers that can be reached have answered everything; those that
    hang are not waited for longer than `patience_ms`.
    """

    duration_ms: int
    patience_ms: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """Something for the state-change log."""

    event: str
    fields: Mapping[str, object] = field(default_factory=dict)


Effect: TypeAlias = (
    Read | ListChildren | Write | Send | Connect | Disconnect | Enqueue | Rest | Note
)


class Nodes(NamedTuple):
    """The nodes of a Read, in its order; None where there is none."""

    nodes: tuple[Node | None, ...]


class Children(NamedTuple):
    """The names of ListChildren; empty also when there is no such node."""

    names: tuple[str, ...]


class Outcomes(NamedTuple):
    """The outcomes of a Write, in its order."""

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
    """Return the names below `path`, in no order."""
    answer = yield ListChildren(path, watch)
    assert isinstance(answer, Children), "ListChildren is answered with Children"
    return answer.names


def write(transactions: Sequence[Transaction]) -> Plan[tuple[Outcome, ...]]:
    """Apply transactions and return what became of each."""
    if not transactions:
        return ()
    answer = yield Write(tuple(transactions))
    assert isinstance(answer, Outcomes), "a Write is answered with Outcomes"
    return answer.outcomes
