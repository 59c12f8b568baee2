"""Keys of replication and of leader election (decision)."""

from dataclasses import dataclass

from broker.config_key import boolean, integer, long, optional_string, string
from storage.config_key import at_least


@dataclass(frozen=True, kw_only=True)
class ReplicationKeys:
    """How followers copy, when they count as in sync, and who decides on leaders."""

    replica_lag_time_max_ms: int = long(
        30_000, "A follower that has not caught up for so long leaves the in-sync set."
    )
    replica_high_watermark_checkpoint_interval_ms: int = long(
        5000, "How often high watermarks are saved."
    )
    replica_fetch_max_bytes: int = integer(
        1024 * 1024, "Bytes that a follower asks for per partition.", at_least(0)
    )
    replica_fetch_response_max_bytes: int = integer(
        10 * 1024 * 1024, "Bytes that a follower asks for per fetch.", at_least(0)
    )
    replica_fetch_min_bytes: int = integer(1, "Bytes that a follower waits for.")
    replica_fetch_wait_max_ms: int = integer(500, "How long a follower waits for them.")
    replica_fetch_backoff_ms: int = integer(
        1000, "Pause of a follower after an error.", at_least(0)
    )
    replica_socket_timeout_ms: int = integer(
        30_000, "How long a follower waits for an answer; at least replica.fetch.wait.max.ms."
    )
    replica_socket_receive_buffer_bytes: int = integer(
        64 * 1024, "No effect: the system chooses SO_RCVBUF of a follower's connection."
    )
    replica_selector_class: str | None = optional_string(
        "No effect: consumers read from the leader."
    )
    num_replica_fetchers: int = integer(1, "Connections to one leader that a follower uses.")
    fetch_purgatory_purge_interval_requests: int = integer(
        1000, "Accepted for compatibility; waiting fetches leave no garbage."
    )
    producer_purgatory_purge_interval_requests: int = integer(
        1000, "Accepted for compatibility; waiting produces leave no garbage."
    )
    delete_records_purgatory_purge_interval_requests: int = integer(
        1, "Accepted for compatibility."
    )
    controller_socket_timeout_ms: int = integer(
        30_000, "How long the controller waits for a broker's answer."
    )
    auto_leader_rebalance_enable: bool = boolean(
        True, "Whether leadership returns to the preferred replica by itself."
    )
    leader_imbalance_per_broker_percentage: int = integer(
        10, "Share of a broker's partitions not led by it that triggers that return."
    )
    leader_imbalance_check_interval_seconds: int = long(
        300, "How often that share is computed.", at_least(1)
    )
    inter_broker_protocol_version: str = string(
        "3.9", "Oldest version of the protocol among brokers that the cluster must understand."
    )
