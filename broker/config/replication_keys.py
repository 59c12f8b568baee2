"""Keys of replication and of leader election (decision)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from broker.config.declared_key import KeyRule, boolean, integer, long, optional_string, string
from broker.errors import ConfigError
from storage.config.config_key import at_least

OLDEST_PROTOCOL: Final = (2, 4)
NEWEST_PROTOCOL: Final = (3, 9)
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_PROTOCOL_VERSION: Final = re.compile(r"([0-9]+)\.([0-9]+)(?:[.-].*)?\Z")


@dataclass(frozen=True, kw_only=True)
class ReplicationKeys:
    """Fetches of followers, membership in the in-sync set, and leader balancing."""

    replica_lag_time_max_ms: int = long(
        30_000, "Time without catching up after which a follower leaves the in-sync set."
    )
    replica_high_watermark_checkpoint_interval_ms: int = long(
        5000, "Interval between checkpoints of high watermarks."
    )
    replica_fetch_max_bytes: int = integer(
        1024 * 1024, "Bytes that a follower requests per partition.", at_least(0)
    )
    replica_fetch_response_max_bytes: int = integer(
        10 * 1024 * 1024, "Bytes that a follower requests per fetch.", at_least(0)
    )
    replica_fetch_min_bytes: int = integer(1, "Minimum bytes per fetch of a follower.")
    replica_fetch_wait_max_ms: int = integer(
        500, "Time that a follower's fetch waits for replica.fetch.min.bytes."
    )
    replica_fetch_backoff_ms: int = integer(
        1000, "Back-off of a follower after an error.", at_least(0)
    )
    replica_socket_timeout_ms: int = integer(
        30_000,
        "Time that a follower waits for a response; at least replica.fetch.wait.max.ms.",
    )
    replica_socket_receive_buffer_bytes: int = integer(
        64 * 1024, "No effect: the system chooses SO_RCVBUF of a follower's connection."
    )
    replica_selector_class: str | None = optional_string(
        f"{RACK_AWARE_SELECTOR}: consumers that name their rack read from a follower in it. Empty, "
        f"or {LEADER_SELECTOR}: they read from the leader."
    )
    num_replica_fetchers: int = integer(1, "Number of connections from a follower to one leader.")
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
        30_000, "Time that the controller waits for a broker's response."
    )
    auto_leader_rebalance_enable: bool = boolean(
        True, "Whether leadership returns to the preferred replica automatically."
    )
    leader_imbalance_per_broker_percentage: int = integer(
        10, "Percentage of a broker's preferred partitions led elsewhere that triggers the return."
    )
    leader_imbalance_check_interval_seconds: int = long(
        300, "Interval between computations of this percentage.", at_least(1)
    )
    inter_broker_protocol_version: str = string(
        "3.9", "Oldest inter-broker protocol version that the cluster must understand."
    )

    @property
    def inter_broker_version(self) -> tuple[int, int]:
        """The inter-broker protocol's major and minor version."""
        text = self.inter_broker_protocol_version
        found = _PROTOCOL_VERSION.match(text)
        if found is None:
            rule = "must be a version such as 3.9 or 2.6-IV0"
            raise ConfigError("inter.broker.protocol.version", text, rule)
        return int(found[1]), int(found[2])

    def rules(self) -> Iterator[KeyRule]:
        """Yield the rules between the keys."""
        yield (
            "inter.broker.protocol.version", self.inter_broker_protocol_version,
            OLDEST_PROTOCOL <= self.inter_broker_version <= NEWEST_PROTOCOL,
            "must be within 2.4..3.9",
        )  # fmt: skip
        yield (
            "replica.selector.class", self.replica_selector_class,
            self.replica_selector_class in (None, "", LEADER_SELECTOR, RACK_AWARE_SELECTOR),
            f"must be empty, {LEADER_SELECTOR} or {RACK_AWARE_SELECTOR}",
        )  # fmt: skip
        yield (
            "replica.socket.timeout.ms", self.replica_socket_timeout_ms,
            self.replica_fetch_wait_max_ms <= self.replica_socket_timeout_ms,
            "must be at least replica.fetch.wait.max.ms",
        )  # fmt: skip
        yield (
            "replica.lag.time.max.ms", self.replica_lag_time_max_ms,
            self.replica_fetch_wait_max_ms <= self.replica_lag_time_max_ms,
            "must be at least replica.fetch.wait.max.ms",
        )  # fmt: skip
