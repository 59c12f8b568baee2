"""A pattern matches whole names of topics that exist, except for internal ones."""

import re
from dataclasses import replace

import pytest

from ottla.client.consumer.group.topic_pattern import matching_topics, parse_pattern
from ottla.client.errors import ConfigurationError
from tests.unit.client.client_fakes import metadata, topic


def test_the_whole_name_has_to_match() -> None:
    known = metadata(
        topic(0, name="orders-1"),
        topic(0, name="orders-22"),
        topic(0, name="old-orders-1"),
        topic(name="orders-3"),
        replace(topic(0, name="orders-4"), is_internal=True),
    )
    assert matching_topics(parse_pattern("orders-[0-9]+"), known) == {"orders-1", "orders-22"}
    assert matching_topics(parse_pattern(re.compile("ORDERS-1", re.IGNORECASE)), known) == {
        "orders-1"
    }
    assert matching_topics(parse_pattern("orders"), known) == set()


@pytest.mark.parametrize("pattern", ["(", b"a", re.compile(b"a"), 7, ["a"], "a{99999999999}"])
def test_other_patterns_are_refused(pattern: object) -> None:
    with pytest.raises(ConfigurationError, match="pattern must be"):
        parse_pattern(pattern)
