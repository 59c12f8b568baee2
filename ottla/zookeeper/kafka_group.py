"""Looks for a Kafka group of the same name, which reads every record as well (edge)."""

import logging
from typing import Final

from ottla.client.admin.admin_groups import describe_group, list_groups
from ottla.client.errors import OttlaError
from ottla.client.network.cluster import Cluster

log = logging.getLogger(__name__)

WITHOUT_MEMBERS: Final = ("Empty", "Dead")


async def warn_of_kafka_members(cluster: Cluster, group: str, timeout_s: float) -> None:
    """Log a warning if the Kafka group of this name has members; never raises."""
    try:
        count = await kafka_member_count(cluster, group, timeout_s)
    except OttlaError as error:
        # The brokers may be older than such groups, or keep their list from this user.
        log.debug("group.kafka_group_unknown group=%s error=%s", group, error)
        return
    if count:
        log.warning(
            "group.kafka_group_has_members group=%s members=%d: the Kafka group of this name is "
            "another group, and both read all records.",
            group,
            count,
        )


async def kafka_member_count(cluster: Cluster, group: str, timeout_s: float) -> int:
    """Return the number of members of the Kafka group of this name.

    Raises:
        OttlaError: the brokers cannot be asked, or refuse.
    """
    # First the list: the question for a group's coordinator makes brokers create the topic of
    # groups, which a cluster of old consumers may never have had.
    for listed in await list_groups(cluster, timeout_s):
        if listed.group_id == group and listed.state not in WITHOUT_MEMBERS:
            return len((await describe_group(cluster, group, timeout_s)).members)
    return 0
