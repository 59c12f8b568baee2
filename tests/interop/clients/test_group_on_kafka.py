"""Our group members on a real Kafka 3.9.1 broker: what they do on ours they must do there.

The tests are those of `tests/integration/client/test_group.py`; only the broker is another.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient  # type: ignore[import-untyped]

from tests.integration.client import test_group as ours
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip

DELETE_TIMEOUT_S = 30
START_TIMEOUT_S = 120.0
GROUPS_AT_ONCE = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}

test_a_lone_member_reads = ours.test_a_lone_member_reads_everything_and_the_next_one_goes_on
test_members_share = ours.test_members_share_and_hand_over_without_loss_or_repetition
test_functions_are_told = ours.test_functions_are_told_in_order_and_may_commit
test_cooperative_members = ours.test_cooperative_members_keep_what_they_keep
test_nothing_in_hand_is_taken = ours.test_nothing_is_taken_away_or_committed_that_is_in_hand
test_a_failing_body = ours.test_what_a_failing_body_had_in_hand_is_read_again
test_a_static_member = ours.test_a_static_member_comes_back_to_its_partitions
test_an_idle_member = ours.test_an_idle_member_makes_room_and_comes_back
test_two_of_one_name = ours.test_two_of_one_name_are_not_tolerated
test_added_partitions = ours.test_partitions_that_are_added_are_shared_out
test_a_later_topic = ours.test_a_topic_that_comes_later_is_shared_out
test_by_hand = ours.test_who_assigns_by_hand_begins_at_the_commit
test_unsubscribing = ours.test_unsubscribing_leaves_the_group


class Kafka:
    """What the tests need to know of a broker."""

    def __init__(self, bootstrap: str, nodes: KazooClient) -> None:
        self.bootstrap = bootstrap
        self.nodes = nodes


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """One broker of Kafka's, on our coordinator."""
    jars = kafka_jars_or_skip()
    directory = tmp_path_factory.mktemp("kafka")
    coordinator = Coordinator(directory / "coordinator")
    broker = KafkaBroker(1, directory, coordinator.address, jars, GROUPS_AT_ONCE)
    try:
        wait_until(broker.has_started, START_TIMEOUT_S)
        admin = AdminClient({"bootstrap.servers": broker.address})
        wait_until(lambda: len(admin.list_topics(timeout=DELETE_TIMEOUT_S).brokers) == 1)
        nodes = KazooClient(coordinator.address)
        nodes.start()
        yield Kafka(broker.address, nodes)
        nodes.stop()
        nodes.close()
    finally:
        broker.kill()
        coordinator.kill()


@pytest.fixture
def broker_process(kafka: Kafka) -> Iterator[Kafka]:
    """The same broker for every test, which begins without topic t and group g."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    yield kafka
    # Static members stay for a session timeout, and not every test makes a group and a topic.
    wait_until(lambda: _is_deleted(admin), DELETE_TIMEOUT_S)
    admin.delete_topics(["t"])["t"].exception(DELETE_TIMEOUT_S)
    # Deleting goes on after the answer.
    wait_until(lambda: kafka.nodes.exists("/brokers/topics/t") is None)
    wait_until(lambda: kafka.nodes.exists("/admin/delete_topics/t") is None)


def _is_deleted(admin: AdminClient) -> bool:
    error = admin.delete_consumer_groups(["g"])["g"].exception(DELETE_TIMEOUT_S)
    return error is None or error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
