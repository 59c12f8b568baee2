"""A member's view of its group, and the owners that follow from it (decision)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clusterstate.errors import MalformedZnodeError
from ottla.zookeeper.assignment import Slot, Strategy, assign
from ottla.zookeeper.registration import (
    Layout,
    Pattern,
    Registration,
    decode_registration,
    thread_ids,
)
from ottla.zookeeper.topic_filter import topic_filter, visible


@dataclass(frozen=True, slots=True)
class GroupView:
    """The group as read at one moment.

    `names` holds the partitions of each topic that this member reads, by their name in the layout.
    """

    members: Mapping[str, Registration]
    topics: Sequence[str]
    names: Mapping[str, Sequence[str]]
    has_brokers: bool = True
    malformed: Sequence[str] = ()
    created: Mapping[str, int] = field(default_factory=dict)
    """Zxid of the creation of each topic, where it is known."""


def members_of(
    texts: Mapping[str, bytes | None], layout: Layout
) -> tuple[dict[str, Registration], list[str]]:
    """Return the registration of each member, and the ids with one that cannot be read."""
    members: dict[str, Registration] = {}
    malformed = []
    for consumer, data in texts.items():
        try:
            members[consumer] = decode_registration(data, layout)
        except MalformedZnodeError:
            malformed.append(consumer)
    return members, malformed


def topics_of(
    registration: Registration, topics: Sequence[str], *, exclude_internal: bool
) -> dict[str, int]:
    """Return the topics that a member reads, with the number of its streams for each.

    Raises:
        ConfigurationError: its filter cannot be read with certainty as Java reads it.
    """
    if registration.pattern is Pattern.STATIC or not registration.subscription:
        return dict(registration.subscription)
    regex, streams = next(iter(registration.subscription.items()))
    matches = topic_filter(regex)
    is_listed = registration.pattern is Pattern.WHITE_LIST
    candidates = visible(topics, exclude_internal=exclude_internal)
    return {topic: streams for topic in candidates if matches(topic) == is_listed}


def wanted(
    view: GroupView,
    consumer: str,
    *,
    layout: Layout,
    strategy: Strategy = Strategy.RANGE,
    exclude_internal: bool = True,
) -> dict[Slot, str]:
    """Return the partitions that `consumer` is to own, with the thread id for each.

    Raises:
        ConfigurationError: the filter of a member cannot be read.
    """
    mine = _threads_of(view, consumer, exclude_internal=exclude_internal)
    owned = everybody(view, layout=layout, strategy=strategy, exclude_internal=exclude_internal)
    return {slot: thread for slot, thread in owned.items() if thread in mine}


def everybody(
    view: GroupView, *, layout: Layout, strategy: Strategy, exclude_internal: bool = True
) -> dict[Slot, str]:
    """Return the thread id that is to own each partition of the topics in the view.

    Raises:
        ConfigurationError: the filter of a member cannot be read.
    """
    threads: dict[str, list[str]] = {}
    for consumer, registration in view.members.items():
        found = topics_of(registration, view.topics, exclude_internal=exclude_internal)
        for topic, streams in found.items():
            threads.setdefault(topic, []).extend(thread_ids(consumer, streams))
    return assign(strategy, view.names, threads, layout)


def _threads_of(view: GroupView, consumer: str, *, exclude_internal: bool) -> frozenset[str]:
    mine = view.members.get(consumer)
    if mine is None:
        return frozenset()
    streams = topics_of(mine, view.topics, exclude_internal=exclude_internal).values()
    return frozenset(thread_ids(consumer, max(streams, default=0)))
