"""The report behind `ottla cluster describe` (composition).

It combines two admin requests.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.cli.command_config import ClusterAccess
from ottla.cli.terminal import Cell
from ottla.cli.text import JsonValue
from ottla.client.admin_model import ClusterDescription, TopicDescription
from ottla.client.cluster_metadata import PartitionMetadata

COLUMNS: Final = ("broker", "address", "rack", "role", "leaders", "replicas", "lagging")


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """Brokers and topics of a cluster."""

    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription]

    @property
    def partitions(self) -> list[PartitionMetadata]:
        """All partitions of all topics."""
        return [part for topic in self.topics.values() for part in topic.partitions]


async def describe_cluster(access: ClusterAccess) -> ClusterReport:
    """Fetch the brokers and topics of the cluster."""
    async with access.admin() as admin:
        return ClusterReport(await admin.describe_cluster(), await admin.describe_all_topics())


def to_rows(report: ClusterReport) -> list[list[Cell]]:
    """Return a row per broker, in the order of `COLUMNS`."""
    leaders, replicas, lagging = _counts(report)
    return [
        [
            broker_id,
            str(address),
            report.cluster.racks.get(broker_id) or "-",
            "controller" if broker_id == report.cluster.controller_id else "",
            leaders[broker_id],
            replicas[broker_id],
            lagging[broker_id],
        ]
        for broker_id, address in sorted(report.cluster.brokers.items())
    ]


def to_json(report: ClusterReport) -> dict[str, JsonValue]:
    """Return the whole report as a JSON object."""
    leaders, replicas, lagging = _counts(report)
    brokers: list[JsonValue] = [
        {
            "id": broker_id,
            "host": address.host,
            "port": address.port,
            "rack": report.cluster.racks.get(broker_id),
            "leaders": leaders[broker_id],
            "replicas": replicas[broker_id],
            "lagging": lagging[broker_id],
        }
        for broker_id, address in sorted(report.cluster.brokers.items())
    ]
    return {
        "cluster_id": report.cluster.cluster_id,
        "controller_id": report.cluster.controller_id,
        "brokers": brokers,
        "topics": len(report.topics),
        "partitions": len(report.partitions),
        "under_replicated": sum(map(is_under_replicated, report.partitions)),
        "leaderless": sum(part.leader < 0 for part in report.partitions),
    }


def is_under_replicated(part: PartitionMetadata) -> bool:
    """Whether some replica of the partition is out of sync."""
    return len(part.isr) < len(part.replicas)


def _counts(report: ClusterReport) -> tuple[Counter[int], Counter[int], Counter[int]]:
    leaders: Counter[int] = Counter(part.leader for part in report.partitions)
    replicas: Counter[int] = Counter()
    lagging: Counter[int] = Counter()
    for part in report.partitions:
        replicas.update(part.replicas)
        lagging.update(set(part.replicas) - set(part.isr))
    return leaders, replicas, lagging
