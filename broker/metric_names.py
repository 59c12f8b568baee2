"""Exported names of a broker's gauges: Kafka's names where they exist (decision).

They follow the names that the JMX exporter gives to beans, as in
`kafka_server_ReplicaManager_LeaderCount`. Gauges that Kafka does not have begin with `ottla_`.
"""

from collections.abc import Mapping
from typing import Final

REQUEST_DURATION: Final = "ottla_request_duration_seconds"
"""A histogram. Kafka's `TotalTimeMs` has quantiles, which cannot be summed over brokers."""

KAFKAS_NAMES: Final[Mapping[str, str]] = {
    "broker_state": "kafka_server_KafkaServer_BrokerState",
    "partitions": "kafka_server_ReplicaManager_PartitionCount",
    "leader_count": "kafka_server_ReplicaManager_LeaderCount",
    "under_replicated_partitions": "kafka_server_ReplicaManager_UnderReplicatedPartitions",
    "under_min_isr_partition_count": "kafka_server_ReplicaManager_UnderMinIsrPartitionCount",
    "isr_shrinks": "kafka_server_ReplicaManager_IsrShrinks_total",
    "isr_expands": "kafka_server_ReplicaManager_IsrExpands_total",
    "active_controller_count": "kafka_controller_KafkaController_ActiveControllerCount",
    "controller_state": "kafka_controller_KafkaController_ControllerState",
    "offline_partitions_count": "kafka_controller_KafkaController_OfflinePartitionsCount",
    "unclean_leader_elections": "kafka_controller_ControllerStats_UncleanLeaderElections_total",
    "purgatory_size": "kafka_server_DelayedOperationPurgatory_PurgatorySize",
    "request_queue_size": "kafka_network_RequestChannel_RequestQueueSize",
}


def outside_name(name: str) -> str:
    """Return the exported name of the gauge `name`."""
    return KAFKAS_NAMES.get(name, f"ottla_{name}")
