"""The time that the controller component takes for its events (decision).

Names are Kafka's: one timer for each kind of event, with its count and quantiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from monitoring.exposition import SUMMARY, Family, labels_text, value_text
from monitoring.samples import Samples

_STATS: Final = "kafka_controller_controllerstats"
QUANTILE: Final = ("quantile",)
TIMER_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "CONTROLLER_CHANGE": ("controllerchange", "elections of a controller"),
    "BROKER_CHANGE": ("leaderelection", "brokers that come and go, with their elections"),
    "TOPIC_CHANGE": ("topicchange", "new topics and partitions"),
    "TOPIC_DELETION": ("topicdeletion", "deletions of topics"),
    "ALTER_PARTITION_REASSIGNMENT": ("partitionreassignment", "reassignments"),
    "AUTO_LEADER_BALANCE": ("autoleaderbalance", "checks of preferred leaders"),
    "MANUAL_LEADER_BALANCE": ("manualleaderbalance", "elections that an operator requests"),
    "CONTROLLED_SHUTDOWN": ("controlledshutdown", "brokers that hand over"),
    "ISR_CHANGE": ("isrchange", "changes of in-sync sets"),
    "LEADER_AND_ISR_RESPONSE_RECEIVED": (
        "leaderandisrresponsereceived",
        "responses to LeaderAndIsr",
    ),
    "LOG_DIR_CHANGE": ("logdirchange", "failures of log dirs"),
    "UNCLEAN_LEADER_ELECTION_ENABLE": (
        "uncleanleaderelectionenable",
        "unclean elections enabled for all topics",
    ),
    "TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE": (
        "topicuncleanleaderelectionenable",
        "unclean elections enabled for a topic",
    ),
    "LIST_PARTITION_REASSIGNMENT": ("listpartitionreassignment", "listings of reassignments"),
}
"""By the controller's state during the event: the name of the timer, and the events."""
TIMERS: Final = {
    state: Family(
        name=f"{_STATS}_{name}rateandtimems",
        kind=SUMMARY,
        meaning=f"Milliseconds that the controller takes for {events}.",
        labels=QUANTILE,
    )
    for state, (name, events) in TIMER_NAMES.items()
}
QUEUE_TIME: Final = Family(
    name="kafka_controller_controllereventmanager_eventqueuetimems",
    kind=SUMMARY,
    meaning="Milliseconds that events wait for the controller.",
    labels=QUANTILE,
)
CONTROLLER_FAMILIES: Final = (*TIMERS.values(), QUEUE_TIME)
NO_EVENT: Final = Samples()


def controller_pieces(timers: Mapping[str, Samples], queue_time: Samples) -> Iterator[str]:
    """Yield the metrics; `timers` holds the times in milliseconds by the controller's state."""
    for state, family in TIMERS.items():
        yield from _summary(family, timers.get(state, NO_EVENT))
    yield from _summary(QUEUE_TIME, queue_time)


def _summary(family: Family, samples: Samples) -> Iterator[str]:
    lines = [
        f"{family.name}{{{labels_text(QUANTILE, (text,))}}} {value_text(value)}\n"
        for text, value in samples.quantiles()
    ]
    yield from family.pieces_of([*lines, f"{family.name}_count {samples.count}\n"])
