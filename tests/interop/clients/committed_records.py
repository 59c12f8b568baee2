"""Reads the committed records of topics with librdkafka, to the last stable offset."""

import confluent_kafka

TIMEOUT_S = 60.0


def committed_values(bootstrap: str, topic: str, partition_count: int) -> list[list[str]]:
    """Return the values that a read_committed consumer gets, by partition and in order."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader of committed records",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    values: list[list[str]] = [[] for _ in range(partition_count)]
    at_end: set[int] = set()
    consumer.assign(
        [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partition_count)]
    )
    try:
        while len(at_end) < partition_count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"no end of {topic}: only {at_end} within {TIMEOUT_S} s"
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                value = message.value()
                assert value is not None
                values[partition].append(value.decode())
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                at_end.add(partition)
    finally:
        consumer.close()
    return values
