"""What gauges are called outside: `broker.metric_names`."""

from broker.metric_names import exposition


def test_kafkas_names_are_used_where_there_are_any() -> None:
    assert exposition({"broker_state": 3, "isr_shrinks": 2, "waiting_requests": 1}) == (
        "# TYPE kafka_server_KafkaServer_BrokerState gauge\n"
        "kafka_server_KafkaServer_BrokerState 3\n"
        "# TYPE kafka_server_ReplicaManager_IsrShrinks_total counter\n"
        "kafka_server_ReplicaManager_IsrShrinks_total 2\n"
        "# TYPE ottla_waiting_requests gauge\n"
        "ottla_waiting_requests 1\n"
    )
