"""Errors about a wrong type name the argument and the right type."""

import os

import pytest

from kafkawire.ids import TopicPartition
from ottla.client.argument import (
    MAX_TEXT_BYTES,
    record_mistake,
    require_names,
    require_partition,
    require_text,
)
from ottla.client.errors import ConfigurationError


def test_names_are_returned_as_a_list() -> None:
    assert require_names("topics", iter(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize("names", ["ab", b"ab", ["a", 5], [None]], ids=repr)
def test_an_argument_that_is_not_a_list_of_names_is_refused(names: object) -> None:
    with pytest.raises(ConfigurationError, match="topics must be"):
        require_names("topics", names)  # type: ignore[arg-type]


def test_text_is_accepted() -> None:
    require_text("a topic's name", "größe")


def test_text_without_utf_8_encoding_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be text in UTF-8"):
        require_text("a topic's name", os.fsdecode(b"x\xff"))


def test_text_that_no_request_can_carry_is_refused() -> None:
    """One such topic would fail the metadata requests for all others, too."""
    require_text("a topic's name", "x" * MAX_TEXT_BYTES)
    with pytest.raises(ConfigurationError, match="at most 32767 bytes, got 32768"):
        require_text("a topic's name", "x" * (MAX_TEXT_BYTES - 1) + "ß")


def test_a_partition_is_a_topic_and_a_number() -> None:
    assert require_partition(("t", 3)) == TopicPartition("t", 3)
    for wrong in (None, "t", ("t",), ("t", "3"), ("t", 3.0), ("t", -1), ("t", 1, 2)):
        with pytest.raises(ConfigurationError, match=r"TopicPartition\(topic, number\), got "):
            require_partition(wrong)
    for topic in (None, b"t", 5):
        with pytest.raises(ConfigurationError, match="a topic's name must be str"):
            require_partition((topic, 0))


@pytest.mark.parametrize(
    ("value", "key", "headers", "text"),
    [
        ("v", None, (), "value must be bytes or None, got str 'v': use .encode()"),
        (b"v", 5, (), "key must be bytes or None, got int 5"),
        (b"v", None, {"h": b"v"}, "headers must be a list of pairs of str and bytes, got dict"),
        (b"v", None, None, "headers must be a list of pairs of str and bytes, got None"),
        (b"v", None, iter([]), "headers must be a list of pairs of str and bytes, got list_it"),
        (b"v", None, ["h"], "a header must be a pair of str and bytes, got str 'h'"),
        (b"v", None, [(b"h", b"v")], "a header's key must be str, got bytes b'h'"),
        (b"v", None, [("h", "v")], "a header's value must be bytes or None, got str 'v'"),
    ],
)
def test_the_mistake_in_a_record_is_explained(
    value: object, key: object, headers: object, text: str
) -> None:
    mistake = record_mistake(value, key, headers)
    assert isinstance(mistake, TypeError)
    assert text in str(mistake)


def test_a_valid_record_has_no_mistake() -> None:
    headers = [("h", None), ("h", b"v")]
    assert record_mistake(bytearray(b"v"), memoryview(b"k"), headers) is None
