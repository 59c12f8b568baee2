"""The admin client that users hold. Composition.

Requests that change the cluster go to its controller; a controller that moved is found again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from kafkawire.ids import BrokerId, Offset, TopicPartition
from ottla.client import admin_configs, admin_groups, admin_logs, admin_replicas, admin_topics
from ottla.client.admin_model import (
    ClusterDescription,
    ConfigEntry,
    ElectionType,
    GroupDescription,
    GroupListing,
    LogDirectory,
    NewTopic,
    Reassignment,
    ResourceType,
    TopicDescription,
)
from ottla.client.argument import require_names
from ottla.client.cluster import Cluster
from ottla.client.config import ClientConfig, parse_bootstrap
from ottla.client.errors import BrokerUnreachableError, ClientClosedError
from ottla.client.group.committed_offset import CommittedOffset
from ottla.client.offset_lookup import OffsetAndTimestamp, list_offsets


class Admin:
    """Looks after topics and the cluster. Use with `async with`.

    A method that fails for some of what it was asked raises the first error; the others are
    notes of it. Belongs to one event loop; any number of its tasks may use it.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        client_id: str = "ottla",
    ) -> None:
        """Take the settings; nothing is connected yet.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        self._config = ClientConfig(
            bootstrap=parse_bootstrap(bootstrap_servers),
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
        )
        self._timeout_ms = request_timeout_ms
        self._timeout_s = request_timeout_ms / 1000
        self._cluster: Cluster | None = None

    async def start(self) -> None:
        """Connect; `async with` does this.

        Raises:
            NoBrokerAvailableError: none of the bootstrap servers can be reached.
        """
        if self._cluster is not None:
            raise ClientClosedError("an admin client starts once: make a new one")
        cluster = Cluster(self._config, allow_auto_topic_creation=False)
        await cluster.start()
        self._cluster = cluster

    async def close(self) -> None:
        """Disconnect."""
        if self._cluster is not None:
            await self._cluster.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> None:
        """Create topics, or with `validate_only` just say whether that would work.

        Raises:
            TopicExistsError, NotAuthorizedError, BrokerError: as the broker says.
            ConnectionLostError: no answer came; look whether the topics are there.
        """
        wanted = list(topics)
        require_names("names", [topic.name for topic in wanted])
        await admin_topics.create_topics(
            self._started(), wanted, self._timeout_ms, validate_only=validate_only
        )

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all their records.

        Raises:
            UnknownTopicError, NotAuthorizedError, BrokerError: as the broker says.
            ConnectionLostError: no answer came; look whether the topics are gone.
            ConfigurationError: `names` is a single string.
        """
        await admin_topics.delete_topics(
            self._started(), require_names("names", names), self._timeout_ms
        )

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Raise the number of partitions of topics; keys then map to partitions anew."""
        await admin_topics.create_partitions(self._started(), counts.items(), self._timeout_ms)

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted."""
        metadata = await admin_topics.describe_all(self._started(), self._timeout_s)
        return sorted(
            topic.name
            for topic in metadata.topics.values()
            if include_internal or not topic.is_internal
        )

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Return topics with their partitions, leaders and replicas.

        Raises:
            UnknownTopicError: one of them does not exist.
        """
        return await admin_topics.describe_topics(
            self._started(), require_names("names", names), self._timeout_s
        )

    async def describe_all_topics(self) -> dict[str, TopicDescription]:
        """Return all topics with their partitions, those that brokers keep for themselves too."""
        return await admin_topics.describe_all_topics(self._started(), self._timeout_s)

    async def describe_cluster(self) -> ClusterDescription:
        """Return who is in the cluster now."""
        metadata = await admin_topics.describe_nothing(self._started(), self._timeout_s)
        return ClusterDescription(
            cluster_id=metadata.cluster_id,
            controller_id=metadata.controller_id,
            brokers=metadata.brokers,
            racks=metadata.racks,
        )

    async def describe_configs(
        self, kind: ResourceType, name: str, keys: Sequence[str] | None = None
    ) -> dict[str, ConfigEntry]:
        """Return the configs of a topic, or of the broker whose id is `name`; by key."""
        return await admin_configs.describe_configs(
            self._started(), kind, name, keys, self._timeout_s
        )

    async def alter_configs(
        self, kind: ResourceType, name: str, changes: Mapping[str, str | None]
    ) -> None:
        """Set single configs of a topic or broker; None takes a key back to its default."""
        await admin_configs.alter_configs(self._started(), kind, name, changes, self._timeout_s)

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        topics: Mapping[str, Sequence[int]] | None = None,
    ) -> list[LogDirectory]:
        """Return the log directories of brokers (None: all), with the replicas in them.

        `topics` (partitions by topic) narrows the replicas down.

        Raises:
            BrokerUnreachableError: one of the brokers is not in the cluster.
        """
        cluster = self._started()
        known = list((await cluster.refresh()).brokers)
        brokers = known if broker_ids is None else [BrokerId(each) for each in broker_ids]
        if missing := set(brokers) - set(known):
            raise BrokerUnreachableError(
                f"broker {min(missing)} is not in the cluster; there are {sorted(known)}"
            )
        return await admin_logs.describe_log_dirs(cluster, brokers, topics, self._timeout_s)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Offset]:
        """Delete all records below an offset (-1: all that are committed), per partition.

        Return where each log starts now.
        """
        return await admin_logs.delete_records(self._started(), before, self._timeout_ms)

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        kind: ElectionType = ElectionType.PREFERRED,
    ) -> list[TopicPartition]:
        """Elect leaders of `partitions` (None: of all that need it); return where it changed.

        Raises:
            BrokerError: a partition has nobody who could lead it, or does not exist.
        """
        return await admin_replicas.elect_leaders(
            self._started(), partitions, kind, self._timeout_ms
        )

    async def alter_reassignments(
        self, moves: Mapping[TopicPartition, Sequence[int] | None]
    ) -> None:
        """Begin to move partitions to other brokers, the preferred leader first; None cancels.

        It takes as long as copying does: see `list_reassignments`.

        Raises:
            BrokerError: a broker does not exist, or there is no move to cancel.
        """
        await admin_replicas.alter_reassignments(self._started(), moves, self._timeout_ms)

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return which of `partitions` (None: of all) are being moved."""
        return await admin_replicas.list_reassignments(
            self._started(), partitions, self._timeout_ms
        )

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets by timestamp in ms or `OffsetSpec` (start, end, latest timestamp)."""
        return await list_offsets(self._started(), wanted, timeout_s=self._timeout_s)

    async def list_groups(self) -> list[GroupListing]:
        """Return all groups, by name."""
        return await admin_groups.list_groups(self._started(), self._timeout_s)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group with its members; one that does not exist is in state Dead."""
        return await admin_groups.describe_group(self._started(), group_id, self._timeout_s)

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return all offsets that a group has committed."""
        return await admin_groups.list_group_offsets(self._started(), group_id, self._timeout_s)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Set where a group goes on reading.

        Raises:
            CommitFailedError: the group has members: stop them first.
        """
        await admin_groups.alter_group_offsets(self._started(), group_id, offsets, self._timeout_s)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group without members, with all its offsets.

        Raises:
            BrokerError: it has members, or there is no such group.
            ConnectionLostError: no answer came; look whether the group is gone.
        """
        await admin_groups.delete_group(self._started(), group_id, self._timeout_s)

    def _started(self) -> Cluster:
        if self._cluster is None:
            raise ClientClosedError("the admin client is not running: use `async with Admin(...)`")
        self._cluster.require_own_loop()
        return self._cluster
