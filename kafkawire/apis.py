"""The table of Kafka's APIs, with the decodable and advertised versions of each (decision).

To add an API: declare its request and response in `messages/`, and add a row here. `decodable`
follows from the declarations. `advertised` is the range that ApiVersions promises to clients, and
stays None until a handler serves it. A message module is imported when one of its messages is first
requested, so that importing this table costs nothing.

To add a version: raise `versions` of both messages, declare the new fields with `since`, and raise
`advertised` once the handler serves it.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from kafkawire.schema import flexible_from, versions_of

Versions: TypeAlias = tuple[int, int]
"""The first and the last version, both inclusive."""


class ApiKey(enum.IntEnum):
    """Every API key of Kafka 3.9."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CLIENT_METRICS_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87


@dataclass(frozen=True)
class Api:
    """One API; the properties import its messages."""

    key: ApiKey
    name: str
    module: str
    advertised: Versions | None = None

    @cached_property
    def request(self) -> type[object]:
        """Declaration of the API's request."""
        return self._message("Request")

    @cached_property
    def response(self) -> type[object]:
        """Declaration of the API's response."""
        return self._message("Response")

    @cached_property
    def decodable(self) -> Versions:
        """First and last version that can be read and written; a broker may serve fewer."""
        return versions_of(self.request)

    @cached_property
    def flexible_from(self) -> int | None:
        """First version with tagged fields and compact lengths (KIP-482); None without one."""
        return flexible_from(self.request)

    @cached_property
    def response_header_flexible_from(self) -> int | None:
        """First version with a flexible response header; None without one.

        ApiVersions has none, because clients read its response before they know our versions.
        """
        return None if self.key is ApiKey.API_VERSIONS else self.flexible_from

    def _message(self, suffix: str) -> type[object]:
        module = import_module(f"kafkawire.messages.{self.module}")
        return cast(type[object], getattr(module, self.name + suffix))


_ROWS: Final = (
    # Versions 0-2 of Produce are refused by the handler, but librdkafka stops compressing when
    # they are not advertised (KAFKA-18659).
    Api(ApiKey.PRODUCE, "Produce", "produce", advertised=(0, 11)),
    # From version 13 on, Fetch uses topic ids instead of names.
    Api(ApiKey.FETCH, "Fetch", "fetch", advertised=(4, 17)),
    Api(ApiKey.LIST_OFFSETS, "ListOffsets", "list_offsets", advertised=(0, 9)),
    Api(ApiKey.METADATA, "Metadata", "metadata", advertised=(0, 12)),
    Api(ApiKey.LEADER_AND_ISR, "LeaderAndIsr", "leader_and_isr", advertised=(0, 7)),
    Api(ApiKey.STOP_REPLICA, "StopReplica", "stop_replica", advertised=(0, 4)),
    Api(ApiKey.UPDATE_METADATA, "UpdateMetadata", "update_metadata", advertised=(0, 8)),
    Api(ApiKey.CONTROLLED_SHUTDOWN, "ControlledShutdown", "controlled_shutdown", advertised=(0, 3)),
    # Version 9 of these two identifies members by epoch (KIP-848).
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", "group_offsets", advertised=(0, 8)),
    Api(ApiKey.OFFSET_FETCH, "OffsetFetch", "group_offsets", advertised=(0, 8)),
    Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", "find_coordinator", advertised=(0, 6)),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", "group_membership", advertised=(0, 9)),
    Api(ApiKey.HEARTBEAT, "Heartbeat", "group_membership", advertised=(0, 4)),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", "group_membership", advertised=(0, 5)),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", "group_membership", advertised=(0, 5)),
    Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", "group_admin", advertised=(0, 5)),
    Api(ApiKey.LIST_GROUPS, "ListGroups", "group_admin", advertised=(0, 5)),
    Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", "sasl", advertised=(0, 1)),
    Api(ApiKey.API_VERSIONS, "ApiVersions", "api_versions", advertised=(0, 4)),
    Api(ApiKey.CREATE_TOPICS, "CreateTopics", "create_topics", advertised=(2, 7)),
    Api(ApiKey.DELETE_TOPICS, "DeleteTopics", "delete_topics", advertised=(1, 6)),
    Api(ApiKey.DELETE_RECORDS, "DeleteRecords", "delete_records", advertised=(0, 2)),
    Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", "init_producer_id", advertised=(0, 5)),
    Api(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        "OffsetForLeaderEpoch",
        "offset_for_leader_epoch",
        advertised=(2, 4),
    ),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", "transactions", advertised=(0, 5)),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", "transactions", advertised=(0, 4)),
    Api(ApiKey.END_TXN, "EndTxn", "transactions", advertised=(0, 4)),
    Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", "transactions", advertised=(0, 1)),
    Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", "transactions", advertised=(0, 4)),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", "acls", advertised=(0, 3)),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", "acls", advertised=(0, 3)),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", "acls", advertised=(0, 3)),
    Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", "describe_configs", advertised=(0, 4)),
    Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", "alter_configs", advertised=(0, 2)),
    Api(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        "AlterReplicaLogDirs",
        "alter_replica_log_dirs",
        advertised=(0, 2),
    ),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", "describe_log_dirs", advertised=(0, 4)),
    Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", "sasl", advertised=(0, 2)),
    Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", "create_partitions", advertised=(0, 3)),
    Api(
        ApiKey.CREATE_DELEGATION_TOKEN,
        "CreateDelegationToken",
        "delegation_tokens",
        advertised=(0, 3),
    ),
    Api(
        ApiKey.RENEW_DELEGATION_TOKEN,
        "RenewDelegationToken",
        "delegation_tokens",
        advertised=(0, 2),
    ),
    Api(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        "ExpireDelegationToken",
        "delegation_tokens",
        advertised=(0, 2),
    ),
    Api(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        "DescribeDelegationToken",
        "delegation_tokens",
        advertised=(0, 3),
    ),
    Api(ApiKey.DELETE_GROUPS, "DeleteGroups", "group_admin", advertised=(0, 2)),
    Api(ApiKey.ELECT_LEADERS, "ElectLeaders", "reassignment", advertised=(0, 2)),
    Api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "IncrementalAlterConfigs",
        "incremental_alter_configs",
        advertised=(0, 1),
    ),
    Api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "AlterPartitionReassignments",
        "reassignment",
        advertised=(0, 0),
    ),
    Api(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        "ListPartitionReassignments",
        "reassignment",
        advertised=(0, 0),
    ),
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", "group_offsets", advertised=(0, 0)),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", "client_quotas", advertised=(0, 1)),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", "client_quotas", advertised=(0, 1)),
    Api(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        "DescribeUserScramCredentials",
        "scram_credentials",
        advertised=(0, 0),
    ),
    Api(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "AlterUserScramCredentials",
        "scram_credentials",
        advertised=(0, 0),
    ),
    Api(ApiKey.ALTER_PARTITION, "AlterPartition", "alter_partition", advertised=(0, 3)),
    Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", "describe_cluster", advertised=(0, 1)),
    Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", "describe_producers", advertised=(0, 0)),
    Api(
        ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", "transaction_admin", advertised=(0, 0)
    ),
    Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", "transaction_admin", advertised=(0, 1)),
    Api(
        ApiKey.ALLOCATE_PRODUCER_IDS,
        "AllocateProducerIds",
        "allocate_producer_ids",
        advertised=(0, 0),
    ),
)

APIS: Final[Mapping[ApiKey, Api]] = MappingProxyType({api.key: api for api in _ROWS})
"""Every API with declared messages."""

_API_BY_NAME: Final = {api.name: api for api in _ROWS}


def api_of(message_type: type) -> Api:
    """Return the API of a request or response type."""
    # By name: comparing the types would import every message.
    return _API_BY_NAME[message_type.__name__.removesuffix("Request").removesuffix("Response")]


def request_header_version(api_key: ApiKey, version: int) -> int:
    """Return the header version of this request: 2 is flexible, 0 has no client id.

    Raises:
        KeyError: the messages of this API are not declared.
    """
    first_flexible = APIS[api_key].flexible_from
    if first_flexible is not None and version >= first_flexible:
        return 2
    return 0 if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0 else 1


def response_header_version(api_key: ApiKey, version: int) -> int:
    """Return the header version of this response: 1 is flexible.

    Raises:
        KeyError: the messages of this API are not declared.
    """
    first_flexible = APIS[api_key].response_header_flexible_from
    return 1 if first_flexible is not None and version >= first_flexible else 0
