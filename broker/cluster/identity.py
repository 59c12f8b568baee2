"""Determines the broker id and cluster id of this broker (decision).

The log dirs store both (`meta.properties`), and must agree with each other, with the configuration
and with the coordinator. The broker id comes from the configuration, else from the log dirs, else
the coordinator generates it, above the range of configured ids.

Source: kafka.server.KafkaServer.getOrGenerateBrokerId, MetaPropertiesEnsemble of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.errors import StartupError
from kafkawire.ids import BrokerId

NOT_CONFIGURED = -1


@dataclass(frozen=True, slots=True)
class Identity:
    """A broker's id, and the 22 characters of its cluster id."""

    broker_id: BrokerId
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """Owner that one log dir names; None where it names none."""

    path: str
    broker_id: int | None
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class Past:
    """Owner that the log dirs name together; None where none of them names one."""

    broker_id: BrokerId | None
    cluster_id: str | None
    path: str | None = None


def recall(remembered: Iterable[Remembered]) -> Past:
    """Return the owner that the log dirs name.

    Raises:
        StartupError: they contradict each other.
    """
    known = list(remembered)
    brokers = {each.broker_id: each.path for each in known if each.broker_id is not None}
    clusters = {each.cluster_id: each.path for each in known if each.cluster_id is not None}
    if len(brokers) > 1 or len(clusters) > 1:
        owners = "; ".join(f"{e.path}: broker {e.broker_id} of {e.cluster_id}" for e in known)
        raise StartupError(f"the log dirs belong to different brokers or clusters ({owners})")
    broker_id, path = next(iter(brokers.items()), (None, None))
    cluster_id, cluster_path = next(iter(clusters.items()), (None, None))
    return Past(
        None if broker_id is None else BrokerId(broker_id), cluster_id, path or cluster_path
    )


def check_cluster(past: Past, cluster_id: str | None) -> None:
    """Check that the log dirs belong to the coordinator's cluster; None: it has no cluster yet.

    Raises:
        StartupError: they belong to another cluster, whose records would be mixed with this one's.
    """
    if past.cluster_id in (None, cluster_id):
        return
    found = "has no cluster yet" if cluster_id is None else f"coordinates cluster {cluster_id}"
    raise StartupError(
        f"log dir {past.path} belongs to cluster {past.cluster_id}, but the coordinator {found}: "
        "correct zookeeper.connect, or use another log dir"
    )


def choose_broker_id(configured_id: int, past: Past, *, may_generate: bool) -> BrokerId | None:
    """Return this broker's id, None if it is to be generated.

    Raises:
        StartupError: the log dirs contradict the configuration, or there is no id and generating
            one is disabled.
    """
    if past.broker_id is not None:
        if configured_id not in (NOT_CONFIGURED, past.broker_id):
            raise StartupError(
                f"broker.id={configured_id}, but log dir {past.path} belongs to broker "
                f"{past.broker_id}: use that number, or another log dir"
            )
        return past.broker_id
    if configured_id != NOT_CONFIGURED:
        return BrokerId(configured_id)
    if not may_generate:
        raise StartupError("broker.id is not set, and broker.id.generation.enable is false")
    return None
