"""Contents of the table of a running cluster (decision)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kafkawire.ids import TopicPartition
from ottla.cli.terminal import Cell
from ottla.client.cluster_metadata import ClusterMetadata

COLUMNS = (
    "broker",
    "port",
    "process",
    "role",
    "leaders",
    "replicas",
    "lagging",
    "records/s",
    "cpu %",
    "MB",
)
"""Titles short enough for the whole table to fit a terminal of 80 columns."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU time that a process has used in total, and its resident memory."""

    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Observation:
    """State of the cluster at `at_s` (monotonic seconds); unavailable parts are missing."""

    at_s: float
    metadata: ClusterMetadata | None
    end_offsets: Mapping[TopicPartition, int]
    usage: Mapping[str, Usage]


@dataclass(frozen=True, slots=True)
class Member:
    """A broker as its supervisor sees it; `pid` is None while it does not run."""

    broker_id: int
    name: str
    address: str
    pid: int | None
    is_registered: bool


def broker_rows(
    members: list[Member], now: Observation, before: Observation | None
) -> list[list[Cell]]:
    """Return a row per broker, in the order of `COLUMNS`."""
    leaders, replicas, lagging = _counts(now.metadata)
    rates = record_rates(now, before)
    controller_id = -1 if now.metadata is None else now.metadata.controller_id
    return [
        [
            each.broker_id,
            each.address.rpartition(":")[2],
            "" if each.pid is None else str(each.pid),
            _role(each, controller_id),
            leaders[each.broker_id],
            replicas[each.broker_id],
            lagging[each.broker_id],
            round(rates[each.broker_id]),
            round(cpu_percent(each.name, now, before)),
            _memory_mb(now.usage.get(each.name)),
        ]
        for each in members
    ]


def summary(now: Observation, before: Observation | None) -> str:
    """Return one line that summarizes the cluster."""
    if now.metadata is None:
        return "no broker responds"
    partitions = [
        part for each in now.metadata.topics.values() for part in each.partitions.values()
    ]
    lagging = sum(len(part.isr) < len(part.replicas) for part in partitions)
    leaderless = sum(part.leader < 0 for part in partitions)
    return (
        f"{len(now.metadata.topics)} topics, {len(partitions)} partitions, "
        f"{lagging} under-replicated, {leaderless} without a leader, "
        f"{sum(record_rates(now, before).values()):,.0f} records/s"
    )


def record_rates(now: Observation, before: Observation | None) -> Counter[int]:
    """Return the rate of new records per second of each leader, by broker id."""
    rates: Counter[int] = Counter()
    if before is None or now.metadata is None or now.at_s <= before.at_s:
        return rates
    seconds = now.at_s - before.at_s
    for where, end in now.end_offsets.items():
        leader = now.metadata.leader(where)
        if leader is not None and where in before.end_offsets:
            rates[leader] += round(max(0, end - before.end_offsets[where]) / seconds)
    return rates


def cpu_percent(name: str, now: Observation, before: Observation | None) -> float:
    """Return the CPU use of a process between two observations, in percent of one core."""
    if before is None or name not in now.usage or name not in before.usage:
        return 0.0
    used_s = now.usage[name].cpu_s - before.usage[name].cpu_s
    # The CPU time of a restarted process begins at 0 again.
    return max(0.0, 100 * used_s / max(now.at_s - before.at_s, 1e-9))


def _counts(metadata: ClusterMetadata | None) -> tuple[Counter[int], Counter[int], Counter[int]]:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    lagging: Counter[int] = Counter()
    for topic in metadata.topics.values() if metadata else ():
        for part in topic.partitions.values():
            leaders[part.leader] += 1
            replicas.update(part.replicas)
            lagging.update(set(part.replicas) - set(part.isr))
    return leaders, replicas, lagging


def _role(member: Member, controller_id: int) -> str:
    if member.pid is None:
        return "down"
    if not member.is_registered:
        return "absent"
    return "controller" if member.broker_id == controller_id else ""


def _memory_mb(usage: Usage | None) -> int:
    return 0 if usage is None else round(usage.memory_bytes / 1_000_000)
