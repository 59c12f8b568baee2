"""Traffic of topics: `broker.replication.topic_traffic` and its metrics."""

from broker.replication.topic_traffic import Traffic
from broker.status.topic_metrics import topic_pieces
from kafkawire.errors import ErrorCode

IN = "kafka_server_brokertopicmetrics_messagesin_total"
FAILED = "kafka_server_brokertopicmetrics_failedproducerequests_total"
ERRORS = "kafka_network_requestmetrics_errors_total"


def values(traffic: Traffic) -> dict[str, int]:
    text = "".join(topic_pieces(traffic))
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name: int(value) for name, value in lines}


def test_topics_are_shown_one_by_one_and_in_total() -> None:
    traffic = Traffic()
    traffic.join("a").messages_in += 3
    traffic.join("b").messages_in += 4
    traffic.of("b").replication_bytes_in += 9
    found = values(traffic)
    assert (found[f'{IN}{{topic="a"}}'], found[f'{IN}{{topic="b"}}'], found[IN]) == (3, 4, 7)
    assert found["kafka_server_brokertopicmetrics_replicationbytesin_total"] == 9


def test_the_total_keeps_the_counts_of_topics_that_have_left() -> None:
    traffic = Traffic()
    traffic.join("a").bytes_in += 5
    traffic.join("a")
    traffic.leave("a")
    assert traffic.topics.keys() == {"a"}, "one partition is left"
    traffic.leave("a")
    assert (traffic.topics, traffic.total.bytes_in) == ({}, 5)
    assert traffic.join("a").bytes_in == 0, "another topic of that name"


def test_errors_of_unknown_topics_add_no_series() -> None:
    traffic = Traffic()
    traffic.join("a")
    traffic.on_produce_error("a", ErrorCode.NOT_ENOUGH_REPLICAS)
    for number in range(3):
        traffic.on_produce_error(f"unheard-of-{number}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    traffic.on_fetch_error("", ErrorCode.UNKNOWN_TOPIC_ID)
    found = values(traffic)
    assert (found[f'{FAILED}{{topic="a"}}'], found[FAILED]) == (1, 4)
    assert {name: value for name, value in found.items() if name.startswith(ERRORS)} == {
        f'{ERRORS}{{request="Produce",error="NOT_ENOUGH_REPLICAS"}}': 1,
        f'{ERRORS}{{request="Produce",error="UNKNOWN_TOPIC_OR_PARTITION"}}': 3,
        f'{ERRORS}{{request="Fetch",error="UNKNOWN_TOPIC_ID"}}': 1,
    }
    assert not [name for name in found if "unheard" in name]
