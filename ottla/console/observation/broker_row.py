"""One row per broker: its address, roles, replicas and disks (decision)."""

from collections import Counter
from dataclasses import dataclass

from kafkawire.ids import BrokerId
from kafkawire.sentinels import NO_LEADER
from ottla.console.observation.observation import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryRow:
    """A log directory of a broker. Sizes of the disk are None if they are not reported."""

    path: str
    is_online: bool
    replicas: int
    size_bytes: int
    total_bytes: int | None
    usable_bytes: int | None

    @property
    def used_share(self) -> float | None:
        """The used part of the disk, from 0 to 1."""
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 1 - self.usable_bytes / self.total_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker, or one that is offline and still has replicas."""

    broker_id: int
    address: str
    rack: str
    is_alive: bool
    is_controller: bool
    leaders: int
    replicas: int
    out_of_sync: int
    """Replicas on this broker that are not in the ISR."""
    size_bytes: int | None
    directories: tuple[DirectoryRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTotals:
    """Sums over all topics and partitions."""

    brokers: int
    offline_brokers: int
    topics: int
    partitions: int
    under_replicated: int
    """Partitions with fewer in-sync replicas than replicas."""
    offline: int
    """Partitions without a leader."""
    size_bytes: int
    rate: float | None
    """Records per second written to all topics."""
    groups: int
    lag: int


def broker_rows(observation: Observation) -> list[BrokerRow]:
    """Return a row per broker, in the order of their ids."""
    cluster = observation.cluster
    if cluster is None:
        return []
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    out_of_sync: Counter[int] = Counter()
    for topic in observation.topics.values():
        for partition in topic.partitions:
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
            out_of_sync.update(set(partition.replicas) - set(partition.isr))
    directories: dict[int, list[DirectoryRow]] = {}
    for each in observation.log_dirs:
        directories.setdefault(each.broker_id, []).append(
            DirectoryRow(
                path=each.path,
                is_online=each.error is None,
                replicas=len(each.replicas),
                size_bytes=sum(replica.size_bytes for replica in each.replicas),
                total_bytes=each.total_bytes if each.total_bytes >= 0 else None,
                usable_bytes=each.usable_bytes if each.usable_bytes >= 0 else None,
            )
        )
    rows = []
    for broker_id in sorted({*cluster.brokers, *map(BrokerId, replicas)}):
        address = cluster.brokers.get(broker_id)
        held = tuple(directories.get(broker_id, ()))
        rows.append(
            BrokerRow(
                broker_id=broker_id,
                address="" if address is None else str(address),
                rack=cluster.racks.get(broker_id) or "",
                is_alive=address is not None,
                is_controller=broker_id == cluster.controller_id,
                leaders=leaders[broker_id],
                replicas=replicas[broker_id],
                out_of_sync=out_of_sync[broker_id],
                size_bytes=sum(each.size_bytes for each in held) if held else None,
                directories=held,
            )
        )
    return rows


def cluster_totals(observation: Observation) -> ClusterTotals:
    """Return the sums over the cluster."""
    rows = broker_rows(observation)
    partitions = [
        partition for topic in observation.topics.values() for partition in topic.partitions
    ]
    rates = [
        rate for series in observation.written.values() if (rate := series.rate_per_s()) is not None
    ]
    return ClusterTotals(
        brokers=sum(row.is_alive for row in rows),
        offline_brokers=sum(not row.is_alive for row in rows),
        topics=len(observation.topics),
        partitions=len(partitions),
        under_replicated=sum(len(each.isr) < len(each.replicas) for each in partitions),
        offline=sum(each.leader == NO_LEADER for each in partitions),
        size_bytes=sum(row.size_bytes or 0 for row in rows),
        rate=sum(rates) if rates else None,
        groups=len(observation.groups),
        lag=int(sum(series.last or 0 for series in observation.lags.values())),
    )
