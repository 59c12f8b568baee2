"""Keys of the broker as a whole: identity, topics, shutdown, the coordinator (decision)."""

from dataclasses import dataclass

from broker.config_key import boolean, integer, long, optional_integer, optional_string, string
from storage.config_key import at_least


@dataclass(frozen=True, kw_only=True)
class ServerKeys:
    """Who this broker is, and the limits that belong to no other group."""

    broker_id: int = integer(
        -1, "Number of this broker, unique in the cluster; -1 takes it from the log directory "
        "or generates one.", at_least(-1),
    )  # fmt: skip
    broker_id_generation_enable: bool = boolean(
        True, "Whether a broker without a number may generate one."
    )
    reserved_broker_max_id: int = integer(
        1000, "Largest broker number that a person may choose; generated ones lie above.",
        at_least(0),
    )  # fmt: skip
    broker_rack: str | None = optional_string(
        "Rack of this broker; replicas of a partition are spread over racks. All brokers have one, "
        "or none."
    )
    background_threads: int = integer(
        10, "Threads for work that blocks: flushing, deleting, checkpoints.", at_least(1)
    )
    num_io_threads: int = integer(
        8, "Accepted for compatibility; one loop serves all requests.", at_least(1)
    )
    request_timeout_ms: int = integer(
        30_000, "No effect: each kind of request to another broker has a timeout of its own."
    )
    fetch_max_bytes: int = integer(
        55 * 1024 * 1024, "Most bytes that one fetch response returns.", at_least(1024)
    )
    max_incremental_fetch_session_cache_slots: int = integer(
        1000, "Fetch sessions of followers kept at most; consumers get none.", at_least(0)
    )
    max_request_partition_size_limit: int = integer(
        2000, "No effect: DescribeTopicPartitions is not served.", at_least(1)
    )
    auto_create_topics_enable: bool = boolean(
        True, "Whether asking for an unknown topic creates it."
    )
    delete_topic_enable: bool = boolean(True, "Whether topics may be deleted.")
    num_partitions: int = integer(1, "Partitions of a topic that names no number.", at_least(1))
    default_replication_factor: int = integer(
        1, "Replicas of a partition when the creator names no number."
    )
    authorizer_class_name: str = string(
        "", "Must be empty: access control is not served yet, and is refused, not ignored."
    )
    controlled_shutdown_enable: bool = boolean(
        True, "Whether leaders are moved away before this broker stops."
    )
    controlled_shutdown_max_retries: int = integer(
        3, "Attempts to move the leaders away before stopping anyway."
    )
    controlled_shutdown_retry_backoff_ms: int = long(5000, "Pause between those attempts.")
    zookeeper_connect: str | None = optional_string(
        "Addresses of the coordinator, HOST:PORT,...[/chroot]; without it the broker runs one."
    )
    zookeeper_session_timeout_ms: int = integer(
        18_000, "The coordinator declares this broker dead after so long a silence."
    )
    zookeeper_connection_timeout_ms: int | None = optional_integer(
        "How long to wait for the coordinator at start; zookeeper.session.timeout.ms when absent."
    )
    zookeeper_max_in_flight_requests: int = integer(
        10, "No effect: requests to the coordinator are not counted.", at_least(1)
    )
    zookeeper_set_acl: bool = boolean(
        False, "Must be false: znodes are created without an ACL, and true is refused."
    )
    metrics_listener: str = string(
        "", "HOST:PORT that tells over HTTP how the broker is: /metrics (for Prometheus), /tasks, "
        "/startup; empty for none. Not a key of Kafka.",
    )  # fmt: skip
    metrics_num_samples: int = integer(
        2, "No effect: metrics are counters, without samples.", at_least(1)
    )
    metrics_sample_window_ms: int = long(
        30_000, "No effect: metrics are counters, without samples.", at_least(1)
    )
