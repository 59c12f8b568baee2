"""The names of a broker's metrics that have one value each (decision).

Each has the name that the JMX exporter gives to Kafka's metric, with the rules of Strimzi and of
Kafka's own example. Metrics that Kafka does not have begin with `ottla_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from monitoring.exposition import COUNTER, GAUGE, Family


def _families(kind: str, rows: Mapping[str, tuple[str, str]]) -> dict[str, Family]:
    return {
        key: Family(name=name, kind=kind, meaning=meaning) for key, (name, meaning) in rows.items()
    }


_REPLICAS: Final = "kafka_server_replicamanager"
_CONTROLLER: Final = "kafka_controller_kafkacontroller"
_CLEANER: Final = "kafka_log_logcleaner"
_SOCKETS: Final = "kafka_server_socket_server_metrics"

_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "broker_state": (
        "kafka_server_kafkaserver_brokerstate",
        "State of the broker: 1 starting, 2 recovering, 3 running, 6 handing over, 7 stopping.",
    ),
    "live_brokers": ("kafka_brokers", "Brokers that are registered, as this broker knows."),
    "partitions": (f"{_REPLICAS}_partitioncount", "Partitions with a replica here."),
    "leader_count": (f"{_REPLICAS}_leadercount", "Partitions that this broker leads."),
    "under_replicated_partitions": (
        f"{_REPLICAS}_underreplicatedpartitions",
        "Partitions led here with a replica that is not in sync.",
    ),
    "under_min_isr_partition_count": (
        f"{_REPLICAS}_underminisrpartitioncount",
        "Partitions led here with fewer replicas in sync than min.insync.replicas.",
    ),
    "at_min_isr_partition_count": (
        f"{_REPLICAS}_atminisrpartitioncount",
        "Partitions led here with exactly min.insync.replicas in sync.",
    ),
    "offline_replica_count": (
        f"{_REPLICAS}_offlinereplicacount",
        "Replicas here that are offline because their log dir has failed.",
    ),
    "producer_ids": (f"{_REPLICAS}_produceridcount", "Producer ids that the logs here know."),
    "partitions_with_late_transactions_count": (
        f"{_REPLICAS}_partitionswithlatetransactionscount",
        "Partitions with a transaction that is open for longer than any timeout.",
    ),
    "active_controller_count": (
        f"{_CONTROLLER}_activecontrollercount",
        "1 if this broker is the controller, else 0.",
    ),
    "controller_state": (
        f"{_CONTROLLER}_controllerstate",
        "Kafka's number for the kind of event that the controller processes; 0 between events.",
    ),
    "offline_partitions_count": (
        f"{_CONTROLLER}_offlinepartitionscount",
        "Partitions without a leader; 0 if this broker is not the controller.",
    ),
    "preferred_replica_imbalance_count": (
        f"{_CONTROLLER}_preferredreplicaimbalancecount",
        "Partitions whose leader is not the preferred replica; 0 if not the controller.",
    ),
    "global_topic_count": (
        f"{_CONTROLLER}_globaltopiccount",
        "Topics of the cluster; 0 if this broker is not the controller.",
    ),
    "global_partition_count": (
        f"{_CONTROLLER}_globalpartitioncount",
        "Partitions of the cluster; 0 if this broker is not the controller.",
    ),
    "active_broker_count": (
        f"{_CONTROLLER}_activebrokercount",
        "Registered brokers that the controller knows; 0 if this broker is not the controller.",
    ),
    "topics_to_delete_count": (
        f"{_CONTROLLER}_topicstodeletecount",
        "Topics that wait for their deletion; 0 if this broker is not the controller.",
    ),
    "controller_event_queue_size": (
        "kafka_controller_controllereventmanager_eventqueuesize",
        "Events that wait for the controller.",
    ),
    "controller_channel_queue_size": (
        "kafka_controller_controllerchannelmanager_totalqueuesize",
        "Requests of the controller that wait for their brokers.",
    ),
    "purgatory_size": (
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Pairs of a waiting request and a partition that it waits for.",
    ),
    "waiting_requests": (
        "kafka_server_delayedoperationpurgatory_numdelayedoperations",
        "Requests that wait for records, for replicas or for their timeout.",
    ),
    "request_queue_size": (
        "kafka_network_requestchannel_requestqueuesize",
        "Requests that wait for a handler.",
    ),
    "offline_log_dirs": (
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log dirs that cannot be used.",
    ),
    "max_dirty_percent": (
        "kafka_log_logcleanermanager_max_dirty_percent",
        "Largest share of a compacted log that was dirty in the cleaner's last round.",
    ),
    "time_since_last_run_ms": (
        "kafka_log_logcleanermanager_time_since_last_run_ms",
        "Time since the cleaner last looked for a log to clean.",
    ),
    "uncleanable_partitions_count": (
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        "Partitions that the cleaner has given up.",
    ),
    "max_compaction_delay_secs": (
        f"{_CLEANER}_max_compaction_delay_secs",
        "Longest time that a log has waited beyond max.compaction.lag.ms.",
    ),
    "cleaner_recopy_percent": (
        f"{_CLEANER}_cleaner_recopy_percent",
        "Share of the bytes read by the cleaner's last round that were written again.",
    ),
    "max_buffer_utilization_percent": (
        f"{_CLEANER}_max_buffer_utilization_percent",
        "Use of the map of keys in the cleaner's last round.",
    ),
    "max_clean_time_secs": (
        f"{_CLEANER}_max_clean_time_secs",
        "Duration of the cleaner's last round.",
    ),
    "dead_cleaner_threads": (f"{_CLEANER}_deadthreadcount", "Cleaners that a bug has ended."),
    "max_replica_lag": (
        "kafka_server_replicafetchermanager_maxlag",
        "Largest number of committed records that a follower here lacks.",
    ),
    "open_transactions": ("ottla_open_transactions", "Open transactions in the partitions here."),
    "full_log_dirs": ("ottla_full_log_dirs", "Log dirs that refuse appends because they are full."),
    "damaged_segments": ("ottla_damaged_segments", "Segments with known damage."),
}
_COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "isr_shrinks": (f"{_REPLICAS}_isrshrinks_total", "In-sync sets led here that have shrunk."),
    "isr_expands": (f"{_REPLICAS}_isrexpands_total", "In-sync sets led here that have grown."),
    "isr_failures": (
        f"{_REPLICAS}_failedisrupdates_total",
        "Changes of in-sync sets that the controller has refused.",
    ),
    "unclean_leader_elections": (
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Elections in this controller epoch that may have lost records.",
    ),
    "bytes_in_total": (f"{_SOCKETS}_incoming_byte_total", "Bytes received from all clients."),
    "bytes_out_total": (f"{_SOCKETS}_outgoing_byte_total", "Bytes sent to all clients."),
    "connections_accepted_total": (
        f"{_SOCKETS}_connection_creation_total",
        "Connections that were accepted.",
    ),
    "authentications_total": (
        f"{_SOCKETS}_successful_authentication_total",
        "Logins of clients on listeners with SASL.",
    ),
    "authentications_failed_total": (
        f"{_SOCKETS}_failed_authentication_total",
        "Logins that were refused on listeners with SASL.",
    ),
    "session_expirations": (
        "kafka_server_sessionexpirelistener_zookeeperexpires_total",
        "Sessions with the coordinator that have expired.",
    ),
    "sendfile_bytes_total": ("ottla_sendfile_bytes_total", "Bytes sent without a copy."),
    "cold_reads_total": ("ottla_cold_reads_total", "Reads of files that were not in memory."),
    "connections_refused_total": (
        "ottla_connections_refused_total",
        "Connections refused because of a limit or a stop.",
    ),
    "connections_dropped_total": (
        "ottla_connections_dropped_total",
        "Connections that the broker has closed: bad input, idleness, failure of a handler.",
    ),
    "handler_failures_total": ("ottla_handler_failures_total", "Handlers that a bug has ended."),
    "read_pauses_total": (
        "ottla_read_pauses_total",
        "Times that the broker has stopped reading from a connection for a while.",
    ),
    "cleaner_rounds": ("ottla_cleaner_rounds_total", "Logs that the cleaner has cleaned."),
    "cleaner_failures": ("ottla_cleaner_failures_total", "Rounds of the cleaner that failed."),
}

GAUGE_FAMILIES: Final = _families(GAUGE, _GAUGES) | _families(COUNTER, _COUNTERS)
"""By the names of the gauges in `gauges`."""
