"""The modules of the request handlers, by API, and the parts that handlers are made from.

A handler's module declares its APIs in `APIS`. It is imported, with its messages, at the first
request of an API: a broker starts faster, and stays smaller, without the handlers that its clients
never use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Final

from broker.cluster.cluster_topics import ClusterTopics
from broker.cluster.control_fence import ControlFence
from broker.cluster.control_proof import ControlProof
from broker.cluster.controller_role import ControllerRole
from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.finalized_features import FinalizedFeatures
from broker.cluster.identity import Identity
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.metadata_watch import MetadataWatch
from broker.cluster.peer_addresses import PeerAddresses
from broker.cluster.producer_ids import ProducerIds
from broker.config.broker_config import BrokerConfig
from broker.groups.group_coordinator import GroupCoordinator
from broker.live_configs.live_configs import LiveConfigs
from broker.log_levels import LogLevels
from broker.logs.mover import LogMover
from broker.network.request_tasks import RequestTasks
from broker.network.router import Handler
from broker.purgatory import Purgatory
from broker.replication.replica_manager import ReplicaManager
from broker.security.access_control import AccessControl
from broker.security.token_nodes import TokenNodes
from broker.transactions.transaction_coordinator import TransactionCoordinator
from broker.transactions.verifier import TransactionVerifier
from kafkawire.apis import ApiKey
from kafkawire.ids import TopicPartition
from storage.directory.logs import Logs

MODULES: Final[Mapping[ApiKey, str]] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "offset_lookup",
    ApiKey.METADATA: "metadata",
    ApiKey.LEADER_AND_ISR: "control_requests",
    ApiKey.STOP_REPLICA: "control_requests",
    ApiKey.UPDATE_METADATA: "control_requests",
    ApiKey.CONTROLLED_SHUTDOWN: "broker_requests",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "group_membership",
    ApiKey.HEARTBEAT: "group_membership",
    ApiKey.LEAVE_GROUP: "group_membership",
    ApiKey.SYNC_GROUP: "group_membership",
    ApiKey.DESCRIBE_GROUPS: "group_admin",
    ApiKey.LIST_GROUPS: "group_admin",
    ApiKey.SASL_HANDSHAKE: "sasl",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "producers",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_lookup",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.DESCRIBE_ACLS: "acls",
    ApiKey.CREATE_ACLS: "acls",
    ApiKey.DELETE_ACLS: "acls",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "log_dirs",
    ApiKey.SASL_AUTHENTICATE: "sasl",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.CREATE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.RENEW_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.DELETE_GROUPS: "group_admin",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "reassignments",
    ApiKey.OFFSET_DELETE: "offset_commit",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "client_quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "scram_credentials",
    ApiKey.ALTER_PARTITION: "broker_requests",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "transaction_admin",
    ApiKey.LIST_TRANSACTIONS: "transaction_admin",
    ApiKey.ALLOCATE_PRODUCER_IDS: "broker_requests",
}
"""Every served API."""
CONSUMER_SESSIONS: Final = "broker.handlers.consumer_session"
GUARD_TABLE: Final = "broker.handlers.guards.guard_table"
"""The module of the guards, which is imported only if there is an authorizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a broker that handlers use."""

    access: AccessControl | None
    """None without an authorizer."""
    config: BrokerConfig
    configs: LiveConfigs
    controller: ControllerRole
    features: FinalizedFeatures
    fence: ControlFence
    groups: GroupCoordinator
    identity: Identity
    levels: LogLevels
    logs: Logs
    loop: asyncio.AbstractEventLoop
    metadata: MetadataCache
    mover: LogMover
    now_ms: Callable[[], int]
    clock_ms: Callable[[], int]
    peers: PeerAddresses
    producer_ids: ProducerIds
    proof: ControlProof
    purgatory: Purgatory[TopicPartition]
    replicas: ReplicaManager
    session: CoordinatorSession
    tasks: RequestTasks
    tokens: TokenNodes | None
    """None without delegation tokens."""
    topics: ClusterTopics
    transactions: TransactionCoordinator
    verifier: TransactionVerifier
    watch: MetadataWatch


Apis = Mapping[ApiKey, Callable[[Parts], Handler]]
"""A module's APIs, each with the function that makes its handler."""


def makers(parts: Parts) -> Mapping[ApiKey, Callable[[], Handler]]:
    """Return the handler factory of each served API."""
    return {key: partial(_make, key, parts) for key in MODULES}


def apis_of(module: str) -> Apis:
    """Import a handlers' module; return its APIs."""
    apis: Apis = import_module(f"broker.handlers.{module}").APIS
    return apis


def _make(key: ApiKey, parts: Parts) -> Handler:
    handle = apis_of(MODULES[key])[key](parts)
    if parts.access is not None:
        handle = import_module(GUARD_TABLE).guarded(key, parts, parts.access, handle)
    if key is ApiKey.FETCH:
        # Outside of the guard, which has to check all partitions of a session again.
        handle = import_module(CONSUMER_SESSIONS).sessions_of(parts, handle)
    return handle
