"""Filters of topics, as Java reads them."""

import pytest

from ottla.client.errors import ConfigurationError
from ottla.zookeeper.topic_filter import filter_text, topic_filter, visible


@pytest.mark.parametrize(
    ("text", "regex"),
    [(" a, b ", "a|b"), ('"a.*"', "a.*"), ("''a'", "a"), ("a b", "ab"), ("a.*", "a.*")],
)
def test_the_text_of_a_filter_is_simplified_as_in_java(text: str, regex: str) -> None:
    assert filter_text(text) == regex


def test_the_whole_name_has_to_match() -> None:
    matches = topic_filter("or.*,b")
    assert [matches(each) for each in ("orders", "b", "my-orders", "bb")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    [
        r"\p{Alpha}",
        r"a\z",
        r"(?<x>a)",
        r"(?P<x>a)",
        r"(a)(?(1)b)",
        "[a&&b]",
        "[a[b]]",
        "a{,3}",
        "(",
        "a" * 10_001,
        "a{99999999999}",
    ],
)
def test_a_regex_that_java_may_read_differently_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="filter"):
        topic_filter(text)


def test_internal_topics_are_left_out_on_request() -> None:
    topics = ["b", "__consumer_offsets", "a"]
    assert visible(topics, exclude_internal=True) == ["a", "b"]
    assert visible(topics, exclude_internal=False) == ["__consumer_offsets", "a", "b"]
