"""The live pages about brokers, topics and groups (decision)."""

from collections.abc import Mapping
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.client.admin_model import TopicDescription
from ottla.console.observation.broker_row import broker_rows, cluster_totals
from ottla.console.observation.group_row import (
    GROUP_COLUMNS,
    LAG_COLUMNS,
    group_row,
    group_rows,
    lag_rows,
)
from ottla.console.observation.observation import Observation
from ottla.console.observation.topic_row import (
    PARTITION_COLUMNS,
    TOPIC_COLUMNS,
    partition_rows,
    topic_row,
    topic_rows,
)
from ottla.console.pages.page import MissingError, Page, PageFunction
from ottla.console.view.table import table_page

WORST_SHOWN: Final = 5


def overview_page(observation: Observation, parameters: Mapping[str, str]) -> Page:
    """Return the page of the cluster and its brokers."""
    topics = topic_rows(observation)
    troubled = [row for row in topics if row.offline or row.under_replicated]
    troubled.sort(key=lambda row: (-row.offline, -row.under_replicated, row.name))
    groups = [row for row in group_rows(observation) if row.lag]
    groups.sort(key=lambda row: (-(row.lag or 0), row.name))
    busy = [row for row in topics if row.rate and row.rate > 0]
    busy.sort(key=lambda row: (-(row.rate or 0), row.name))
    return Page(
        title="Cluster",
        section="cluster",
        template="live/overview.html",
        values={
            "totals": cluster_totals(observation),
            "brokers": broker_rows(observation),
            "troubled": troubled[:WORST_SHOWN],
            "lagging": groups[:WORST_SHOWN],
            "busy": busy[:WORST_SHOWN],
            "parameters": parameters,
        },
    )


def broker_page(observation: Observation, parameters: Mapping[str, str]) -> Page:
    """Return the page of one broker."""
    wanted = parameters.get("id", "")
    for row in broker_rows(observation):
        if str(row.broker_id) == wanted:
            return Page(
                title=f"Broker {row.broker_id}",
                section="cluster",
                template="live/broker.html",
                values={"broker": row},
            )
    raise MissingError(f"There is no broker {wanted}.")


def require_broker(observation: Observation, text: str) -> None:
    """Check that a live broker has the id in `text`, as far as the brokers are known.

    Raises:
        MissingError: there is no such broker.
    """
    if observation.cluster is not None and text not in map(str, observation.cluster.brokers):
        raise MissingError(f"No broker {text} is online.")


def topics_page(observation: Observation, parameters: Mapping[str, str]) -> Page:
    """Return the page of all topics; internal ones need the parameter `internal`."""
    rows = [
        row for row in topic_rows(observation) if not row.is_internal or parameters.get("internal")
    ]
    table = table_page(
        rows,
        parameters,
        path="/topics",
        columns=TOPIC_COLUMNS,
        default="name",
        text_of=lambda row: row.name,
    )
    return Page(
        title="Topics", section="topics", template="live/topics.html", values={"table": table}
    )


def topic_page(observation: Observation, parameters: Mapping[str, str]) -> Page:
    """Return the page of one topic and its partitions."""
    topic = topic_of(observation, parameters.get("name", ""))
    table = table_page(
        partition_rows(observation, topic),
        parameters,
        path="/topic",
        columns=PARTITION_COLUMNS,
        default="partition",
        text_of=lambda row: str(row.number),
    )
    readers = [row for row in group_rows(observation) if topic.name in row.topics]
    return Page(
        title=topic.name,
        section="topics",
        template="live/topic.html",
        values={
            "topic": topic_row(observation, topic),
            "table": table,
            "readers": sorted(readers, key=lambda row: row.name)[:WORST_SHOWN],
            "reader_count": len(readers),
        },
    )


def groups_page(observation: Observation, parameters: Mapping[str, str]) -> Page:
    """Return the page of all groups."""
    table = table_page(
        group_rows(observation),
        parameters,
        path="/groups",
        columns=GROUP_COLUMNS,
        default="name",
        text_of=lambda row: row.name,
    )
    return Page(
        title="Groups", section="groups", template="live/groups.html", values={"table": table}
    )


def group_page(observation: Observation, parameters: Mapping[str, str]) -> Page:
    """Return the page of one group: its lag over time, its partitions and members."""
    name = parameters.get("name", "")
    if name not in observation.groups:
        raise MissingError(f"There is no group {name}.")
    table = table_page(
        lag_rows(observation, name),
        parameters,
        path="/group",
        columns=LAG_COLUMNS,
        default="topic",
        text_of=lambda row: f"{row.partition.topic} {'' if row.member is None else row.member}",
    )
    return Page(
        title=name,
        section="groups",
        template="live/group.html",
        values={
            "group": group_row(observation, name),
            "table": table,
            "members": observation.groups[name].description.members,
        },
    )


def topic_of(observation: Observation, name: str) -> TopicDescription:
    """Return a topic.

    Raises:
        MissingError: there is no such topic.
    """
    if name not in observation.topics:
        raise MissingError(f"There is no topic {name}.")
    return observation.topics[name]


def partition_of(observation: Observation, topic: str, text: str) -> TopicPartition:
    """Return the partition that a request names.

    Raises:
        MissingError: there is no such partition.
    """
    for each in topic_of(observation, topic).partitions:
        if str(each.partition) == text:
            return TopicPartition(topic, each.partition)
    raise MissingError(f"Topic {topic} has no partition {text}.")


LIVE_PAGES: Final[Mapping[str, PageFunction]] = {
    "/": overview_page,
    "/broker": broker_page,
    "/topics": topics_page,
    "/topic": topic_page,
    "/groups": groups_page,
    "/group": group_page,
}
