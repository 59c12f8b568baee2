"""Which broker this is, and of which cluster (decision).

The number comes from the configuration, else from the log dirs, else it is generated, above all
numbers that people choose; the cluster's id comes from the log dirs, else it is generated. The log
dirs remember both (`meta.properties`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from broker.errors import StartupError
from kafkawire.ids import BrokerId, TopicId, topic_id_to_text

NOT_CONFIGURED = -1


@dataclass(frozen=True, slots=True)
class Identity:
    """A broker's number, and the 22 characters that name its cluster."""

    broker_id: BrokerId
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """What one log dir says of its owner; None where it says nothing."""

    path: str
    broker_id: int | None
    cluster_id: str | None


def choose_identity(
    configured_id: int,
    remembered: Iterable[Remembered],
    *,
    may_generate: bool,
    max_reserved_id: int,
    random_id: Callable[[], TopicId],
) -> Identity:
    """Return who this broker is.

    Raises:
        StartupError: log dirs contradict each other or the configuration, or nothing says who
            this is and it may not be generated.
    """
    known = list(remembered)
    broker_ids = {each.broker_id: each.path for each in known if each.broker_id is not None}
    cluster_ids = {each.cluster_id: each.path for each in known if each.cluster_id is not None}
    if len(broker_ids) > 1 or len(cluster_ids) > 1:
        owners = "; ".join(f"{e.path}: broker {e.broker_id} of {e.cluster_id}" for e in known)
        raise StartupError(f"the log dirs belong to different brokers or clusters ({owners})")
    cluster_id = next(iter(cluster_ids), None) or topic_id_to_text(random_id())
    for broker_id, path in broker_ids.items():
        if configured_id not in (NOT_CONFIGURED, broker_id):
            raise StartupError(
                f"broker.id={configured_id}, but log dir {path} belongs to broker {broker_id}: "
                "use that number, or another log dir"
            )
        return Identity(BrokerId(broker_id), cluster_id)
    if configured_id != NOT_CONFIGURED:
        return Identity(BrokerId(configured_id), cluster_id)
    if not may_generate:
        raise StartupError("broker.id is not set, and broker.id.generation.enable=false")
    return Identity(BrokerId(max_reserved_id + 1), cluster_id)
