"""Changes from the fields of forms."""

import pytest

from ottla.client.admin_model import ResourceType
from ottla.console.changes.change import (
    AddPartitions,
    AlterConfig,
    CreateTopic,
    DeleteTopic,
    parse_change,
)


def test_topic_is_created_with_the_defaults_of_the_broker() -> None:
    change = parse_change({"action": "create", "topic": " orders "})
    assert change == CreateTopic(topic="orders")
    assert change.sentences == (
        "Topic orders gets the default number of partitions and the default number of replicas "
        "of each.",
    )


def test_topic_is_created_with_numbers_and_configs() -> None:
    change = parse_change(
        {
            "action": "create",
            "topic": "orders",
            "partitions": "6",
            "replicas": "1",
            "configs": "\nretention.ms = 60000\ncleanup.policy=compact,delete\n",
        }
    )
    assert change == CreateTopic(
        topic="orders",
        partitions=6,
        replicas=1,
        configs={"retention.ms": "60000", "cleanup.policy": "compact,delete"},
    )
    assert change.sentences == (
        "Topic orders gets 6 partitions and 1 replica of each.",
        "retention.ms is set to 60000.",
        "cleanup.policy is set to compact,delete.",
    )
    assert not change.typed


def test_deletion_needs_the_name_to_be_typed() -> None:
    change = parse_change({"action": "delete", "topic": "orders"})
    assert change == DeleteTopic(topic="orders")
    assert change.typed == "orders"
    assert change.sentences[0] == "Topic orders is deleted with all its records."


def test_partitions_are_added() -> None:
    change = parse_change({"action": "partitions", "topic": "orders", "partitions": "12"})
    assert change == AddPartitions(topic="orders", partitions=12)
    assert change.sentences[0] == "Topic orders gets 12 partitions in total."


def test_configs_are_set_and_reset() -> None:
    fields = {"kind": "topic", "name": "orders", "key": "retention.ms", "value": " 5 "}
    change = parse_change({"action": "set", **fields})
    assert change == AlterConfig(
        kind=ResourceType.TOPIC, name="orders", key="retention.ms", value="5"
    )
    assert change.sentences == (
        "retention.ms of topic orders is set to \N{LEFT DOUBLE QUOTATION MARK}5"
        "\N{RIGHT DOUBLE QUOTATION MARK}.",
    )
    reset = parse_change({"action": "reset", **fields, "kind": "broker", "name": "1"})
    assert reset.sentences == ("retention.ms of broker 1 is reset to its default.",)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "there is no change ''"),
        ({"action": "create"}, "the topic is missing"),
        ({"action": "create", "topic": "x" * 250}, "at most 249 characters, got 250"),
        ({"action": "create", "topic": "t", "partitions": "0"}, "partitions is from 1 to 100000"),
        ({"action": "create", "topic": "t", "replicas": "x"}, "replicas is from 1 to 1000"),
        ({"action": "create", "topic": "t", "configs": "retention"}, "the form key=value"),
        ({"action": "create", "topic": "t", "configs": "=1"}, "the form key=value"),
        ({"action": "create", "topic": "t", "configs": "a=1\na=2"}, "a is there twice"),
        ({"action": "create", "topic": "t", "configs": "a=1\n" * 201}, "at most 200 configs"),
        ({"action": "partitions", "topic": "t"}, "partitions is from 1"),
        ({"action": "set", "kind": "user", "name": "u", "key": "k"}, "a topic or a broker"),
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_change(fields)
