"""The report behind `ottla topics describe` (composition).

It combines three admin requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafkawire.ids import TopicPartition, topic_id_to_text
from ottla.cli.command_config import ClusterAccess
from ottla.cli.terminal import Cell
from ottla.cli.text import JsonValue
from ottla.client.admin.admin import Admin
from ottla.client.admin_model import OffsetSpec, ResourceType, TopicDescription
from ottla.client.cluster_metadata import PartitionMetadata

NO_LEADER = "none"


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic with its own configs and the start and end offsets of partitions with a leader."""

    topic: TopicDescription
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    configs: Mapping[str, str | None]


async def describe_topics(access: ClusterAccess, names: Sequence[str] | None) -> list[TopicReport]:
    """Fetch topics, offsets and configs in the order of `names`, or of all topics without names.

    Raises:
        UnknownTopicError: one of the topics does not exist.
    """
    async with access.admin() as admin:
        if not names:
            found = await admin.describe_all_topics()
            return [await _report(admin, topic) for topic in found.values()]
        topics = await admin.describe_topics(names)
        return [await _report(admin, topics[name]) for name in names]


async def _report(admin: Admin, topic: TopicDescription) -> TopicReport:
    entries = await admin.describe_configs(ResourceType.TOPIC, topic.name)
    return TopicReport(
        topic,
        starts=await _offsets(admin, topic, OffsetSpec.EARLIEST),
        ends=await _offsets(admin, topic, OffsetSpec.LATEST),
        configs={key: entry.value for key, entry in entries.items() if not entry.is_default},
    )


async def _offsets(admin: Admin, topic: TopicDescription, spec: OffsetSpec) -> dict[int, int]:
    led = [part for part in topic.partitions if part.leader >= 0]
    wanted = {TopicPartition(topic.name, part.partition): int(spec) for part in led}
    places = await admin.list_offsets(wanted)
    return {where.partition: place.offset for where, place in places.items()}


def narrowed(
    reports: Sequence[TopicReport], *, under_replicated: bool, unavailable: bool
) -> list[TopicReport]:
    """Return the reports reduced to partitions in one of the requested states."""
    found = []
    for report in reports:
        partitions = tuple(
            part
            for part in report.topic.partitions
            if (under_replicated and len(part.isr) < len(part.replicas))
            or (unavailable and part.leader < 0)
        )
        if partitions:
            found.append(replace(report, topic=replace(report.topic, partitions=partitions)))
    return found


def to_rows(report: TopicReport) -> list[list[Cell]]:
    """Return a row per partition."""
    return [
        [
            report.topic.name,
            part.partition,
            part.leader if part.leader >= 0 else NO_LEADER,
            part.leader_epoch,
            _ids(part.replicas),
            _ids(part.isr),
            report.starts.get(part.partition, "-"),
            report.ends.get(part.partition, "-"),
        ]
        for part in report.topic.partitions
    ]


def to_json(report: TopicReport) -> JsonValue:
    """Return the whole report as a JSON object."""
    return {
        "name": report.topic.name,
        "topic_id": topic_id_to_text(report.topic.topic_id),
        "is_internal": report.topic.is_internal,
        "configs": dict(report.configs),
        "partitions": [_partition_json(report, part) for part in report.topic.partitions],
    }


def _partition_json(report: TopicReport, part: PartitionMetadata) -> JsonValue:
    return {
        "partition": part.partition,
        "leader": part.leader if part.leader >= 0 else None,
        "leader_epoch": part.leader_epoch,
        "replicas": list(part.replicas),
        "isr": list(part.isr),
        "start_offset": report.starts.get(part.partition),
        "end_offset": report.ends.get(part.partition),
    }


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(str(broker_id) for broker_id in brokers)
