"""Keys of consumer groups, committed offsets and transactions (decision)."""

from dataclasses import dataclass

from broker.config.declared_key import boolean, integer, long, short
from storage.config.config_key import INT_MAX, at_least, between

_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class GroupKeys:
    """Limits of groups, and the layout of the topics that hold their state."""

    group_min_session_timeout_ms: int = integer(6000, "Shortest session timeout of a member.")
    group_max_session_timeout_ms: int = integer(1_800_000, "Longest session timeout of a member.")
    group_initial_rebalance_delay_ms: int = integer(
        3000, "Time that a new group waits for more members before its first rebalance."
    )
    group_max_size: int = integer(INT_MAX, "Maximum number of members of a group.", at_least(1))
    offset_metadata_max_bytes: int = integer(
        4096, "Maximum size of the metadata of a committed offset, in bytes."
    )
    offsets_load_buffer_size: int = integer(
        5 * 1024 * 1024, "Bytes per read while committed offsets are loaded.", at_least(1)
    )
    offsets_topic_replication_factor: int = short(
        3, "Replicas of the topic of committed offsets.", at_least(1)
    )
    offsets_topic_num_partitions: int = integer(
        50, "Partitions of the topic of committed offsets.", at_least(1)
    )
    offsets_topic_segment_bytes: int = integer(
        100 * 1024 * 1024, "Segment size of the topic of committed offsets.", at_least(1)
    )
    offsets_topic_compression_codec: int = integer(
        0, "Codec of the topic of committed offsets, by number.", between(0, 4)
    )
    offsets_retention_minutes: int = integer(
        10_080, "Time that the offsets of an empty group are kept.", at_least(1)
    )
    offsets_retention_check_interval_ms: int = long(
        600_000, "Interval between checks for expired offsets.", at_least(1)
    )
    offsets_commit_timeout_ms: int = integer(
        5000, "Time that a commit waits for the in-sync replicas.", at_least(1)
    )
    transactional_id_expiration_ms: int = integer(
        7 * _DAY_MS, "Time after which an unused transactional id expires.", at_least(1)
    )
    transaction_max_timeout_ms: int = integer(
        900_000, "Longest transaction timeout that a producer may request.", at_least(1)
    )
    transaction_state_log_min_isr: int = integer(
        2, "min.insync.replicas of the topic of transactions.", at_least(1)
    )
    transaction_state_log_replication_factor: int = short(
        3, "Replicas of the topic of transactions.", at_least(1)
    )
    transaction_state_log_num_partitions: int = integer(
        50, "Partitions of the topic of transactions.", at_least(1)
    )
    transaction_state_log_segment_bytes: int = integer(
        100 * 1024 * 1024, "Segment size of the topic of transactions.", at_least(1)
    )
    transaction_state_log_load_buffer_size: int = integer(
        5 * 1024 * 1024, "Bytes per read while transactions are loaded.", at_least(1)
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = integer(
        10_000, "Interval between checks for timed-out transactions.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = integer(
        3_600_000, "Interval between checks for expired transactional ids.", at_least(1)
    )
    transaction_partition_verification_enable: bool = boolean(
        True, "Whether a partition must be part of the transaction that writes to it."
    )
    producer_id_expiration_ms: int = integer(
        _DAY_MS, "Time without a write after which a producer id expires.", at_least(1)
    )
    producer_id_expiration_check_interval_ms: int = integer(
        600_000, "Interval between checks for expired producer ids.", at_least(1)
    )
