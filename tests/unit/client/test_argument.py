"""Errors about a wrong type name the argument and the right type."""

import os
from math import inf, nan
from typing import Any

import pytest

from kafkawire.ids import TopicPartition
from ottla.client.argument import (
    MAX_TEXT_BYTES,
    record_mistake,
    require_by_partition,
    require_bytes,
    require_duration,
    require_flag,
    require_list,
    require_mapping,
    require_names,
    require_partition,
    require_partitions,
    require_text,
    require_topic,
    require_whole,
)
from ottla.client.errors import ConfigurationError


def test_names_are_returned_as_a_list_each_once() -> None:
    assert require_names("topics", iter(["b", "a", "b"])) == ["b", "a"]


@pytest.mark.parametrize("names", ["ab", b"ab", ["a", 5], [None]], ids=repr)
def test_an_argument_that_is_not_a_list_of_names_is_refused(names: object) -> None:
    with pytest.raises(ConfigurationError, match="topics must be"):
        require_names("topics", names)  # type: ignore[arg-type]


def test_values_that_are_no_list_are_refused() -> None:
    assert require_list("members", "GroupMembers", iter([2, 1, 2])) == [2, 1, 2]
    wrong: Any = 5
    for call in (
        lambda: require_list("names", "names", wrong),
        lambda: require_names("names", wrong),
        lambda: require_partitions("names", wrong),
    ):
        with pytest.raises(ConfigurationError, match=r"names must be a list of .*, got int 5"):
            call()


def test_a_topic_has_a_name() -> None:
    require_topic("t")
    for call in (lambda: require_topic(""), lambda: require_partition(("", 0))):
        with pytest.raises(ConfigurationError, match="a topic's name must not be empty"):
            call()


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
    numbers = ("3", 3.0, -1, True, 2**31)
    for wrong in (None, "t", ("t",), ("t", 1, 2), *(("t", number) for number in numbers)):
        with pytest.raises(ConfigurationError, match=r"TopicPartition\(topic, number\), got "):
            require_partition(wrong)
    for topic in (None, b"t", 5):
        with pytest.raises(ConfigurationError, match="a topic's name must be str"):
            require_partition((topic, 0))


class Number:
    """A whole number of another library, such as numpy's."""

    def __index__(self) -> int:
        return 7


def test_a_whole_number_is_returned_as_an_int() -> None:
    assert [require_whole("count", number, 1, 7) for number in (1, Number())] == [1, 7]


@pytest.mark.parametrize("value", [nan, inf, 1.0, "1", None, True], ids=repr)
def test_a_value_that_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="count must be a whole number, got "):
        require_whole("count", value, 1)


@pytest.mark.parametrize("value", [0, -1, 2**31], ids=repr)
def test_a_whole_number_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"count must be within 1\.\.\d+, got {value}"):
        require_whole("count", value, 1)


def test_a_duration_may_have_a_fraction() -> None:
    for value in (0, 0.5, 1_000):
        require_duration("timeout_ms", value)


@pytest.mark.parametrize("value", [nan, inf, -inf, -1, -0.5, 2**31, True, "1", None], ids=repr)
def test_a_duration_that_is_no_number_or_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="timeout_ms must be "):
        require_duration("timeout_ms", value)


def test_a_text_is_no_flag() -> None:
    require_flag("check_crcs", False)
    with pytest.raises(ConfigurationError, match="check_crcs must be True or False, got str"):
        require_flag("check_crcs", "false")


def test_partitions_are_a_list() -> None:
    place = TopicPartition("t", 3)
    assert require_partitions("partitions", [("t", 3), ["t", 3]]) == [place]
    for wrong in (place, "t"):
        with pytest.raises(ConfigurationError, match="partitions must be a list of partitions"):
            require_partitions("partitions", wrong)


def test_values_by_partition_are_a_mapping() -> None:
    assert require_by_partition("offsets", {("t", 3): 1}) == {TopicPartition("t", 3): 1}
    wrong: Any = [TopicPartition("t", 3)]
    with pytest.raises(ConfigurationError, match="offsets must be a dict, got list"):
        require_by_partition("offsets", wrong)
    with pytest.raises(ConfigurationError, match=r"a partition is TopicPartition"):
        require_by_partition("offsets", {"t": 1})
    with pytest.raises(ConfigurationError, match="changes must be a dict, got None"):
        require_mapping("changes", None)


def test_a_secret_of_a_wrong_type_is_not_quoted() -> None:
    require_bytes("hmac", b"s3cret")
    with pytest.raises(ConfigurationError, match=r"^hmac must be bytes, got str$"):
        require_bytes("hmac", "s3cret")


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


def test_the_key_of_a_header_is_text_in_utf_8() -> None:
    mistake = record_mistake(b"v", None, [("h", b""), ("\ud800", b"")])
    assert isinstance(mistake, ValueError)
    assert str(mistake) == "a header's key must be text in UTF-8, got '\\ud800'"


def test_a_valid_record_has_no_mistake() -> None:
    headers = [("h", None), ("h", b"v")]
    assert record_mistake(bytearray(b"v"), memoryview(b"k"), headers) is None
