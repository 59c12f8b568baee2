"""Subjects have the names that Confluent's strategies give them."""

from typing import Any

import pytest

from ottla.client.avro.subject import subject_namer
from ottla.client.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "is_key", "subject"),
    [
        ("topic", False, "orders-value"),
        ("topic", True, "orders-key"),
        ("record", False, "shop.Order"),
        ("topic-record", True, "orders-shop.Order"),
    ],
)
def test_a_strategy_names_the_subject(name: Any, is_key: bool, subject: str) -> None:
    assert subject_namer(name, "shop.Order", is_key=is_key)("orders") == subject


def test_a_schema_without_a_name_has_subjects_of_topics_only() -> None:
    assert subject_namer("topic", None, is_key=False)("t") == "t-value"
    with pytest.raises(ConfigurationError, match="needs a schema with a name"):
        subject_namer("record", None, is_key=False)


def test_an_unknown_strategy_is_refused() -> None:
    name: Any = "TopicNameStrategy"
    with pytest.raises(ConfigurationError, match="one of topic, record, topic-record, got 'Topic"):
        subject_namer(name, "a", is_key=False)
