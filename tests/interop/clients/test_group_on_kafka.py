"""Ottla's group members against a Kafka 3.9.1 broker.

The tests come from `tests/integration/client/test_group.py`; only the broker differs.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient  # type: ignore[import-untyped]

from tests.integration.client import test_group as ours
from tests.integration.coordination.process import wait_until
from tests.interop.kafka_broker import kafka_on_coordinator

DELETE_TIMEOUT_S = 30
GROUPS_AT_ONCE = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}

test_a_lone_member_reads = ours.test_the_next_member_continues_after_a_lone_one
test_members_rebalance = ours.test_members_rebalance_without_loss_or_duplicates
test_callbacks_are_called = ours.test_callbacks_are_called_in_order_and_may_commit
test_cooperative_members = ours.test_cooperative_members_keep_partitions
test_a_record_in_hand = ours.test_a_record_in_hand_is_neither_committed_nor_taken_away
test_a_failing_body = ours.test_the_record_of_a_failing_body_is_read_again
test_a_static_member = ours.test_a_static_member_gets_its_partitions_back
test_an_idle_member = ours.test_an_idle_member_leaves_and_joins_again
test_two_with_one_instance_id = ours.test_two_members_with_one_instance_id_are_refused
test_added_partitions = ours.test_added_partitions_are_assigned
test_a_later_topic = ours.test_a_topic_created_later_is_assigned
test_a_manual_assignment = ours.test_a_manual_assignment_starts_at_the_commit
test_unsubscribing = ours.test_unsubscribing_leaves_the_group


class Kafka:
    """The attributes of a broker process that the tests use."""

    def __init__(self, bootstrap: str, nodes: KazooClient) -> None:
        self.bootstrap = bootstrap
        self.nodes = nodes


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """One Kafka broker that uses Ottla's coordinator."""
    directory = tmp_path_factory.mktemp("kafka")
    with kafka_on_coordinator(directory, GROUPS_AT_ONCE) as (broker, coordinator):
        admin = AdminClient({"bootstrap.servers": broker.address})
        wait_until(lambda: len(admin.list_topics(timeout=DELETE_TIMEOUT_S).brokers) == 1)
        nodes = KazooClient(coordinator.address)
        nodes.start()
        yield Kafka(broker.address, nodes)
        nodes.stop()
        nodes.close()


@pytest.fixture
def broker_process(kafka: Kafka) -> Iterator[Kafka]:
    """The same broker for every test; each starts without topic t and group g."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    yield kafka
    # Static members stay until their session timeout; some tests create no group or topic.
    wait_until(lambda: _is_deleted(admin), DELETE_TIMEOUT_S)
    admin.delete_topics(["t"])["t"].exception(DELETE_TIMEOUT_S)
    # The deletion continues after the response.
    wait_until(lambda: kafka.nodes.exists("/brokers/topics/t") is None)
    wait_until(lambda: kafka.nodes.exists("/admin/delete_topics/t") is None)


def _is_deleted(admin: AdminClient) -> bool:
    error = admin.delete_consumer_groups(["g"])["g"].exception(DELETE_TIMEOUT_S)
    return error is None or error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
