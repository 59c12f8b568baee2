"""The public admin client (composition).

Requests that change the cluster go to its controller; if the controller moved, the client looks it
up again and retries.
"""

from collections.abc import Iterable, Mapping, Sequence
from time import time_ns
from typing import Final, Self, Unpack

from kafkawire.acl import AclBinding, AclFilter
from kafkawire.ids import BrokerId, Offset, TopicPartition
from kafkawire.sentinels import MAX_OFFSET
from ottla.client.admin import (
    admin_acls,
    admin_configs,
    admin_groups,
    admin_logs,
    admin_quotas,
    admin_replicas,
    admin_tokens,
    admin_topics,
    admin_transactions,
    admin_users,
)
from ottla.client.admin_model import (
    ClientQuota,
    ClusterDescription,
    ConfigEntry,
    DelegationToken,
    ElectionType,
    GroupDescription,
    GroupListing,
    GroupMember,
    HangingTransaction,
    LogDirectory,
    NewTopic,
    OpenTransaction,
    ProducerState,
    Reassignment,
    ResourceType,
    ScramDeletion,
    ScramUpsertion,
    TopicDescription,
    TransactionDescription,
    TransactionListing,
)
from ottla.client.argument import (
    require_list,
    require_names,
    require_partitions,
    require_text,
    require_topic,
    require_whole,
)
from ottla.client.client_config import ClientConfig, parse_bootstrap
from ottla.client.errors import BrokerUnreachableError, ClientClosedError, ConfigurationError
from ottla.client.network.cluster import Cluster
from ottla.client.network.offset_lookup import list_offsets
from ottla.client.offset import CommittedOffset, OffsetAndTimestamp
from ottla.client.security import SecurityOptions, security_of

NANOSECONDS_PER_MS: Final = 1_000_000
MAX_TRANSACTION_TIMEOUT_MS: Final = 900_000
"""Default of the brokers' transaction.max.timeout.ms."""
EVERY_ENTRY: Final = AclFilter()
LONGEST: Final = -1
"""The longest lifetime of a token that the brokers allow."""


class Admin:
    """Manages topics, configs, partitions and consumer groups of a cluster.

        async with Admin("localhost:9092") as admin:
            await admin.create_topics([NewTopic("orders", partitions=6, replication_factor=3)])
            print(await admin.list_topics())

    Reads are retried for up to `request_timeout_ms`. A change is retried only when it certainly
    was not made, so ConnectionLostError and RequestTimedOutError leave its outcome open: check
    the cluster before you repeat it.

    A request may cover several topics or partitions; one that is given twice counts once. If some
    of them fail, the method raises the first error and attaches the others as notes; the remaining
    ones were carried out. A response without a result for one of them raises ProtocolError: it may
    or may not have been carried out.

    Every method raises ClientClosedError before `start` and after `close`, and other OttlaErrors
    when no broker can be reached. An instance belongs to one event loop; any number of tasks of
    that loop may use it concurrently.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        client_id: str = "ottla",
        **security: Unpack[SecurityOptions],
    ) -> None:
        """Configure the client; `start` or `async with` connects it.

        Args:
            bootstrap_servers: Addresses to find the cluster with: "host:port,host:port" or a
                sequence of "host:port". The port defaults to 9092.
            request_timeout_ms: Time limit of one request, and of the retries of one call.
            retry_backoff_ms: Delay before the first retry. It doubles with each further retry.
            retry_backoff_max_ms: Upper limit of that delay.
            client_id: Name of this client in the logs and quotas of the brokers.
            **security: TLS and authentication, under the names of aiokafka; see
                `ottla.client.security.SecurityOptions`.

        Raises:
            ConfigurationError: a setting is out of range; the message has its value and limits.
        """
        self._config = ClientConfig(
            bootstrap=parse_bootstrap(bootstrap_servers),
            client_id=client_id,
            security=security_of(**security),
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
        )
        self._timeout_ms = request_timeout_ms
        self._timeout_s = request_timeout_ms / 1000
        self._cluster: Cluster | None = None

    async def start(self) -> None:
        """Connect to the cluster. `async with` calls this.

        Raises:
            NoBrokerAvailableError: no bootstrap server can be reached; check the addresses.
            ClientClosedError: the client was started before; create a new one.
        """
        if self._cluster is not None:
            raise ClientClosedError("an admin client starts once: make a new one")
        # Known before the first await, so that `close` ends a start in progress.
        self._cluster = cluster = Cluster(self._config, allow_auto_topic_creation=False)
        try:
            await cluster.start()
        except BaseException:
            self._cluster = None
            raise

    async def close(self) -> None:
        """Disconnect. `async with` calls this. Calls in progress fail with an OttlaError."""
        if self._cluster is not None:
            self._cluster.require_own_loop()
            await self._cluster.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> None:
        """Create topics, or with `validate_only` check that they could be created.

        A new topic may be unknown to some brokers for a moment after this returns.

        Raises:
            TopicExistsError: a topic of that name exists; use it, or delete it first.
            NotAuthorizedError: this user may not create topics.
            BrokerError: the broker refuses a name, number or config; the message has its reason.
            ConfigurationError: a topic is no `NewTopic`, or two of a name differ.
            ConnectionLostError: no response arrived; check whether the topics exist.
        """
        await admin_topics.create_topics(
            self._started(), _by_name(topics), self._timeout_ms, validate_only=validate_only
        )

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all their records.

        Raises:
            UnknownTopicError: a topic does not exist.
            NotAuthorizedError: this user may not delete the topic.
            BrokerError: the broker refuses for another reason, given in the message.
            ConnectionLostError: no response arrived; check whether the topics still exist.
            ConfigurationError: `names` is a single string; pass a list.
        """
        await admin_topics.delete_topics(
            self._started(), require_names("names", names), self._timeout_ms
        )

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Raise topics to the given total numbers of partitions.

        Existing records stay in place, but most keys map to another partition from then on, so
        the records of one key are no longer in one partition.

        Raises:
            UnknownTopicError: a topic does not exist.
            BrokerError: a number is not larger than the current one.
            ConnectionLostError: no response arrived; check the topics with `describe_topics`.
        """
        await admin_topics.create_partitions(self._started(), counts, self._timeout_ms)

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted.

        Topics that brokers keep for themselves (`__consumer_offsets`) need `include_internal`.
        """
        metadata = await admin_topics.describe_all(self._started(), self._timeout_s)
        return sorted(
            topic.name
            for topic in metadata.topics.values()
            if include_internal or not topic.is_internal
        )

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Return topics by name, with the leader, replicas and ISR of each partition.

        Raises:
            UnknownTopicError: one of them does not exist.
            ConfigurationError: `names` is a single string; pass a list.
        """
        return await admin_topics.describe_topics(
            self._started(), require_names("names", names), self._timeout_s
        )

    async def describe_all_topics(self) -> dict[str, TopicDescription]:
        """Return all topics by name with their partitions, internal topics included."""
        return await admin_topics.describe_all_topics(self._started(), self._timeout_s)

    async def describe_cluster(self) -> ClusterDescription:
        """Return the live brokers, the controller and the id of the cluster."""
        metadata = await admin_topics.describe_nothing(self._started(), self._timeout_s)
        return ClusterDescription(
            cluster_id=metadata.cluster_id,
            controller_id=metadata.controller_id,
            brokers=metadata.brokers,
            racks=metadata.racks,
        )

    async def describe_configs(
        self, kind: ResourceType, name: str, keys: Iterable[str] | None = None
    ) -> dict[str, ConfigEntry]:
        """Return the configs of a topic or broker by key, all of them unless `keys` is given.

        Args:
            kind: `ResourceType.TOPIC` or `ResourceType.BROKER`.
            name: Name of the topic, or id of the broker as a string ("1"). The empty string
                stands for all brokers: the values that were set for them together.
            keys: Config keys to return, such as "retention.ms".

        Raises:
            UnknownTopicError: there is no such topic.
            ConfigurationError: the name of a broker is not a number, or `keys` is a single string.
            BrokerUnreachableError: there is no such broker.
        """
        named = None if keys is None else require_names("keys", keys)
        return await admin_configs.describe_configs(
            self._started(), kind, name, named, self._timeout_s
        )

    async def alter_configs(
        self, kind: ResourceType, name: str, changes: Mapping[str, str | None]
    ) -> None:
        """Set configs of a topic or broker by key; None resets a key to its default.

        Keys that are not in `changes` keep their values. With `ResourceType.BROKER`
        and the empty string as its name, a change is for all brokers.

            await admin.alter_configs(ResourceType.TOPIC, "orders", {"retention.ms": "86400000"})

        Raises:
            BrokerError: a key or value is refused; then nothing was changed.
            ConfigurationError: the name of a broker is not a number.
            ConnectionLostError: no response arrived; check with `describe_configs`.
        """
        await admin_configs.alter_configs(self._started(), kind, name, changes, self._timeout_s)

    async def describe_acls(self, wanted: AclFilter = EVERY_ENTRY) -> list[AclBinding]:
        """Return the access control entries that match a filter, all of them by default.

        Raises:
            NotAuthorizedError: this user may not list entries.
            BrokerError: the broker has no authorizer.
            UnsupportedVersionError: an entry has an operation or type of a later release.
        """
        return await admin_acls.describe_acls(self._started(), wanted, self._timeout_s)

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Add access control entries; one that exists already is a success.

        Raises:
            NotAuthorizedError: this user may not add entries.
            BrokerError: the broker has no authorizer, or refuses an entry.
            ConnectionLostError: no response arrived; adding them again does no harm.
        """
        await admin_acls.create_acls(
            self._started(),
            require_list("bindings", "AclBindings", bindings),
            self._timeout_s,
        )

    async def delete_acls(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """Remove the access control entries that match any of the filters, and return them.

        Raises:
            NotAuthorizedError: this user may not remove entries.
            BrokerError: the broker has no authorizer.
            ConnectionLostError: no response arrived; check with `describe_acls`.
        """
        return await admin_acls.delete_acls(
            self._started(), require_list("filters", "AclFilters", filters), self._timeout_s
        )

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[str, int]]:
        """Return the SCRAM mechanisms of users, each with its number of iterations.

        Args:
            users: Names of users; all users with SCRAM credentials by default.

        Raises:
            BrokerError: a named user has no SCRAM credentials (RESOURCE_NOT_FOUND).
            NotAuthorizedError: this user may not list users.
            ConfigurationError: `users` is a single string; pass a list.
        """
        names = None if users is None else require_names("users", users)
        return await admin_users.describe_users(self._started(), names, self._timeout_s)

    async def alter_user_scram_credentials(
        self, changes: Iterable[ScramUpsertion | ScramDeletion]
    ) -> None:
        """Set and delete passwords of users; the changes of each user succeed or fail together.

        A password is hashed here and never sent. Brokers know a change within milliseconds;
        connections that exist already last until their session ends.

        Raises:
            BrokerError: a number of iterations is refused, a credential to delete does not exist,
                or a mechanism is named twice for one user.
            NotAuthorizedError: this user may not change users.
            ConfigurationError: a mechanism does not exist, or a password is empty.
            ConnectionLostError: no response arrived; check with `describe_user_scram_credentials`.
        """
        await admin_users.alter_users(
            self._started(), require_list("changes", "credentials", changes), self._timeout_s
        )

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        topics: Mapping[str, Sequence[int]] | None = None,
    ) -> list[LogDirectory]:
        """Return the log directories of brokers, with the replicas in each and their sizes.

        A directory whose disk has failed is in the list with its `error`.

        Args:
            broker_ids: Brokers to query; all live brokers by default.
            topics: Partitions by topic; other replicas are left out. All by default.

        Raises:
            BrokerUnreachableError: one of the brokers is not in the cluster.
        """
        cluster = self._started()
        known = list((await cluster.refresh()).brokers)
        brokers = known
        if broker_ids is not None:
            brokers = list(
                dict.fromkeys(
                    _broker("broker_ids", each)
                    for each in require_list("broker_ids", "ids", broker_ids)
                )
            )
        if missing := set(brokers) - set(known):
            raise BrokerUnreachableError(
                f"broker {min(missing)} is not in the cluster; there are {sorted(known)}"
            )
        return await admin_logs.describe_log_dirs(cluster, brokers, topics, self._timeout_s)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Offset]:
        """Delete the records below an offset, per partition; return the new log start offsets.

        The offset -1 means the high watermark: all records that are on every in-sync replica.
        Deleting twice does no harm, so this is retried for up to `request_timeout_ms`.

        Raises:
            BrokerError: an offset is beyond the high watermark, or the topic is compacted.
            UnknownTopicError: there is no such topic.
        """
        return await admin_logs.delete_records(self._started(), before, self._timeout_ms)

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        kind: ElectionType = ElectionType.PREFERRED,
    ) -> list[TopicPartition]:
        """Elect the leaders of `partitions`; return the partitions whose leader changed.

        Args:
            partitions: Partitions to elect leaders for; by default all that need an election.
            kind: `ElectionType.PREFERRED` elects the first replica in assignment order. With
                `ElectionType.UNCLEAN` a partition that has lost its ISR gets any live replica
                as leader, and records may be lost.

        Raises:
            LeaderElectionError: a partition has no eligible replica, or does not exist; its
                `elected` are the partitions whose leader changed.
            ConnectionLostError: no response arrived; check the leaders with `describe_topics`.
        """
        return await admin_replicas.elect_leaders(
            self._started(), partitions, kind, self._timeout_ms
        )

    async def alter_reassignments(
        self, moves: Mapping[TopicPartition, Sequence[int] | None]
    ) -> None:
        """Start to move partitions to other brokers, or cancel a move.

        This returns once the controller has accepted the moves. Copying continues in the
        background; `list_reassignments` returns the moves in progress.

        Args:
            moves: Target replicas by partition, as broker ids with the preferred leader first.
                None cancels the move of a partition.

        Raises:
            BrokerError: a broker does not exist, or there is no move to cancel.
            ConnectionLostError: no response arrived; check with `list_reassignments`.
        """
        await admin_replicas.alter_reassignments(self._started(), moves, self._timeout_ms)

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the moves in progress of `partitions`, of all partitions by default.

        Partitions that are not being moved are left out.
        """
        return await admin_replicas.list_reassignments(
            self._started(), partitions, self._timeout_ms
        )

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        min_duration_ms: int | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of the cluster, sorted by name.

        Args:
            states: Only ids in one of these states: "Empty", "Ongoing", "PrepareCommit",
                "PrepareAbort", "CompleteCommit" or "CompleteAbort".
            producer_ids: Only ids with one of these producer ids.
            min_duration_ms: Only ids whose current or last transaction began longer ago.

        Raises:
            ConfigurationError: a state does not exist.
        """
        return await admin_transactions.list_transactions(
            self._started(),
            states=require_names("states", states),
            producer_ids=[
                require_whole("producer_ids", each, 0, MAX_OFFSET)
                for each in require_list("producer_ids", "ids", producer_ids)
            ],
            min_duration_ms=None
            if min_duration_ms is None
            else require_whole("min_duration_ms", min_duration_ms, 0, MAX_OFFSET),
            timeout_s=self._timeout_s,
        )

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Return the state, the producer and the partitions of a transactional id.

        Raises:
            BrokerError: no coordinator knows the id.
        """
        require_text("a transactional id", transactional_id)
        return await admin_transactions.describe_transaction(
            self._started(), transactional_id, self._timeout_s
        )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the active producers of partitions, as their leaders know them.

        Args:
            partitions: Partitions of any topics.
            broker_id: Ask this broker, which has replicas of the partitions, and not the leaders.

        Raises:
            UnknownTopicError: there is no such topic.
            BrokerError: a broker has no replica of the partition, or refuses.
        """
        return await admin_transactions.describe_producers(
            self._started(),
            require_partitions("partitions", partitions),
            None if broker_id is None else _broker("broker_id", broker_id),
            self._timeout_s,
        )

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        max_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    ) -> list[HangingTransaction]:
        """Return the transactions that are open in `partitions`, and that no coordinator will end.

        Args:
            partitions: Partitions to check.
            broker_id: Ask this broker, which has replicas of the partitions, and not the leaders.
            max_timeout_ms: The brokers' transaction.max.timeout.ms: only transactions count that
                wrote nothing for longer.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        return await admin_transactions.find_hanging(
            self._started(),
            require_partitions("partitions", partitions),
            None if broker_id is None else _broker("broker_id", broker_id),
            open_since_ms=time_ns() // NANOSECONDS_PER_MS
            - require_whole("max_timeout_ms", max_timeout_ms, 0),
            timeout_s=self._timeout_s,
        )

    async def abort_transaction(self, transaction: OpenTransaction) -> None:
        """End a hanging transaction in one partition by an abort marker.

        The coordinator of its transactional id does not learn of it: a transaction that is not
        hanging would lose the records of this partition although it commits.

        Raises:
            NotAuthorizedError: this user may not alter the cluster.
            BrokerError: the leader knows a newer epoch of the producer or of its coordinator.
            ConnectionLostError: no response arrived; a repetition does no harm.
        """
        await admin_transactions.abort_transaction(self._started(), transaction, self._timeout_s)

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offset of the first record at or after a timestamp, per partition.

        A timestamp is in ms since the epoch, or an `OffsetSpec`: EARLIEST, LATEST (the high
        watermark) or MAX_TIMESTAMP. The offset is -1 if no record is as late as the timestamp.

        Raises:
            UnsupportedVersionError: a broker is too old for MAX_TIMESTAMP (Kafka 3.0).
            UnknownTopicError, UnknownPartitionError: there is no such topic or partition.
        """
        return await list_offsets(self._started(), wanted, timeout_s=self._timeout_s)

    async def list_groups(self) -> list[GroupListing]:
        """Return all groups of the cluster, sorted by name."""
        return await admin_groups.list_groups(self._started(), self._timeout_s)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return the state, assignor and members of a group.

        A group that does not exist is in state "Dead" and has no members.
        """
        return await admin_groups.describe_group(self._started(), group_id, self._timeout_s)

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return all offsets that a group has committed; empty if there is no such group."""
        return await admin_groups.list_group_offsets(self._started(), group_id, self._timeout_s)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Set the committed offsets of a group that has no members.

        Consumers that join the group later start at these offsets (of the next record to read).

        Raises:
            CommitFailedError: the group has members; stop them first.
            UnknownTopicError: a topic does not exist; the offsets of the others were set.
            ConnectionLostError: no response arrived; check with `list_group_offsets`.
            ValueError: an offset is negative, or not a whole number.
        """
        await admin_groups.alter_group_offsets(self._started(), group_id, offsets, self._timeout_s)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group that has no members, with all its committed offsets.

        Raises:
            BrokerError: the group has members, or does not exist.
            ConnectionLostError: no response arrived; check with `list_groups`.
        """
        await admin_groups.delete_group(self._started(), group_id, self._timeout_s)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> None:
        """Delete the committed offsets of partitions; the group keeps its other offsets.

        Raises:
            BrokerError: a member is subscribed to one of the topics, or there is no such group.
            ConnectionLostError: no response arrived; a repetition does no harm.
        """
        await admin_groups.delete_group_offsets(
            self._started(),
            group_id,
            require_partitions("partitions", partitions),
            self._timeout_s,
        )

    async def remove_members(self, group_id: str, members: Iterable[GroupMember]) -> None:
        """Remove members from a group, which then rebalances.

        A member that is still running joins again. Removing is for static members that will not
        return before their session ends.

            group = await admin.describe_group("billing")
            await admin.remove_members("billing", group.members)

        Raises:
            BrokerError: one of them is not a member.
            ConnectionLostError: no response arrived; check with `describe_group`.
        """
        await admin_groups.remove_members(
            self._started(),
            group_id,
            require_list("members", "GroupMembers", members),
            self._timeout_s,
        )

    async def alter_replica_log_dirs(
        self, broker_id: int, paths: Mapping[TopicPartition, str]
    ) -> None:
        """Start to move replicas of a broker to other log directories of the same broker.

        `describe_log_dirs` shows the copies in progress (`is_future`).

        Raises:
            BrokerUnreachableError: the broker is not in the cluster.
            BrokerError: the broker has no such log directory or replica.
            ConnectionLostError: no response arrived; a repetition does no harm.
        """
        await admin_logs.move_replicas(
            self._started(), _broker("broker_id", broker_id), paths, self._timeout_s
        )

    async def describe_client_quotas(
        self,
        entity: Mapping[str, str | None] | None = None,
        *,
        kinds: Iterable[str] = (),
        strict: bool = False,
    ) -> list[ClientQuota]:
        """Return the quotas of users, clients and addresses, all of them by default.

        Args:
            entity: Names that an entity must have by kind: "user", "client-id" or "ip". None
                means the default entity of the kind.
            kinds: Kinds that an entity must have, with any name.
            strict: Leave out entities that have other kinds, too.

        Raises:
            NotAuthorizedError: this user may not describe the cluster.
            BrokerError: the kinds do not go together, or do not exist.
        """
        return await admin_quotas.describe_quotas(
            self._started(),
            {} if entity is None else entity,
            require_names("kinds", kinds),
            self._timeout_s,
            is_strict=strict,
        )

    async def alter_client_quotas(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
    ) -> None:
        """Set quotas of one entity by key, such as "producer_byte_rate"; None removes a quota.

            await admin.alter_client_quotas({"user": "alice"}, {"producer_byte_rate": 1_000_000})

        Raises:
            BrokerError: the entity, a key or a value is refused; nothing was changed.
            ConfigurationError: the entity or the changes are empty.
            ConnectionLostError: no response arrived; a repetition does no harm.
        """
        await admin_quotas.alter_quotas(self._started(), entity, changes, self._timeout_s)

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = LONGEST,
    ) -> DelegationToken:
        """Create a token with which clients log in as its owner, through SCRAM.

        Args:
            owner: Principal such as "User:alice", by default this user.
            renewers: Principals that may renew the token, beside its owner.
            max_lifetime_ms: Time after which it cannot be renewed; -1 for the brokers' limit.

        Raises:
            BrokerError: the brokers have no token secret, or this user logged in with a token.
            ConnectionLostError: no response arrived; check with `describe_delegation_tokens`.
        """
        return await admin_tokens.create_token(
            self._started(),
            owner,
            require_names("renewers", renewers),
            max_lifetime_ms,
            self._timeout_s,
        )

    async def renew_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Let a token expire later; return its new time of expiry, in ms since the epoch.

        Raises:
            BrokerError: there is no such token, or this user may not renew it.
        """
        return await admin_tokens.renew_token(self._started(), hmac, period_ms, self._timeout_s)

    async def expire_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Let a token expire after `period_ms`, at once by default; return its time of expiry.

        Raises:
            BrokerError: there is no such token, or this user may not expire it.
        """
        return await admin_tokens.expire_token(self._started(), hmac, period_ms, self._timeout_s)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationToken]:
        """Return the tokens that `owners` own or may renew, by default all that this user may see.

        Raises:
            BrokerError: the brokers have no token secret.
        """
        named = None if owners is None else require_names("owners", owners)
        return await admin_tokens.describe_tokens(self._started(), named, self._timeout_s)

    def _started(self) -> Cluster:
        if self._cluster is None:
            raise ClientClosedError("the admin client is not running: use `async with Admin(...)`")
        self._cluster.require_own_loop()
        return self._cluster


def _by_name(topics: Iterable[NewTopic]) -> list[NewTopic]:
    """Return the topics, each once."""
    found: dict[str, NewTopic] = {}
    for topic in require_list("topics", "NewTopics", topics):
        if not isinstance(topic, NewTopic):
            raise ConfigurationError(f"topics must be NewTopics, got {topic!r}")
        require_topic(topic.name)
        if found.setdefault(topic.name, topic) != topic:
            raise ConfigurationError(f"topics has two different topics of the name {topic.name}")
    return list(found.values())


def _broker(argument: str, broker_id: object) -> BrokerId:
    return BrokerId(require_whole(argument, broker_id, 0))
