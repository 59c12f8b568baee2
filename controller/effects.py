"""Effects that plans of the controller request, besides reads and writes (decision)."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from clusterstate.plans import Answer, ListChildren, Read, Write
from clusterstate.znodes.registration import Registration
from controller.events import Event
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.messages.stop_replica import StopReplicaRequest
from kafkawire.messages.update_metadata import UpdateMetadataRequest

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
class AwaitWriters:
    """Wait until the new leaders of `partitions` lead, and while producers find them.

    The leaders lead once all reachable brokers have responded to every request sent before. Then
    the wait ends when this broker's partitions have been written, when producers have not made
    progress in the time that one needs for it, or when others wait for the controller: producers
    for partitions that kept their leader, a leader for a change of its in-sync set, partitions of
    another dead broker. `timeout_ms` limits it, for brokers that hang.
    """

    partitions: Sequence[TopicPartition]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Elected:
    """This broker or another one is the controller; if new, its requests are about to come."""


@dataclass(frozen=True, slots=True)
class Note:
    """Event for the state-change log; an error if `is_trouble`, which needs an operator."""

    event: str
    fields: Mapping[str, object] = field(default_factory=dict)
    is_trouble: bool = False


Effect: TypeAlias = (
    Read
    | ListChildren
    | Write
    | Send
    | Connect
    | Disconnect
    | Enqueue
    | AwaitWriters
    | Elected
    | Note
)
_T = TypeVar("_T")
Plan: TypeAlias = Generator[Effect, Answer, _T]
"""A plan of the controller; every plan of `clusterstate` is one too."""
