"""The versions that `message.format.version` accepts, as in Kafka 3.9.1."""

import pytest

from storage.config.format_version import is_format_version
from storage.config.topic_config import check_topic_config


@pytest.mark.parametrize(
    "text",
    ["3.9", "3.9.1", "3.0-IV1", "0.8.2", "0.8.2.1", "0.10.0", "0.10.0-IV0", "0.10.0.1", "1.0",
     "1.0.0-IV0", "2.8-IV1.5", "0.10.0-IV0.x"],
)  # fmt: skip
def test_kafka_knows_the_version(text: str) -> None:
    assert is_format_version(text)


@pytest.mark.parametrize(
    "text",
    ["abc", "", "0.8", "0.10", "4.0", "3.0-IV9", "3", "3.", "03.9", "3.9.", "3.9..", "0.", "."],
)
def test_kafka_knows_no_such_version(text: str) -> None:
    assert not is_format_version(text)


def test_a_topic_refuses_an_unknown_version() -> None:
    with pytest.raises(ValueError, match=r"must be a version of Kafka .* got 'abc'|abc"):
        check_topic_config("message.format.version", "abc")
