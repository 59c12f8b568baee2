"""Settings of members: the defaults of both layouts, and their limits."""

import pytest

from ottla.client.errors import ConfigurationError
from ottla.zookeeper.settings import member_settings


def test_the_defaults_equal_kafkas_old_consumer() -> None:
    found = member_settings(group_id="g")
    assert found.reset == "latest"
    assert found.auto_commit_interval_ms == 60_000
    assert found.rebalance_backoff_ms == 2_000
    assert (found.rebalance_max_retries, found.session_timeout_ms) == (4, 6_000)


def test_the_defaults_equal_jafkas() -> None:
    found = member_settings(group_id="g", layout="jafka")
    assert found.reset == "earliest"
    assert found.auto_commit_interval_ms == 1_000
    assert found.rebalance_backoff_ms == 10_000


@pytest.mark.parametrize(
    ("word", "reset"),
    [
        ("smallest", "earliest"),
        ("largest", "latest"),
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("none", "none"),
    ],
)
def test_old_and_new_words_of_the_reset_policy_are_known(word: str, reset: str) -> None:
    assert member_settings(group_id="g", auto_offset_reset=word).reset == reset  # type: ignore[arg-type]


def test_without_auto_commit_there_is_no_interval() -> None:
    assert member_settings(group_id="g", enable_auto_commit=False).auto_commit_interval_ms is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"group_id": "a/b"}, "group_id"),
        ({"layout": "zookeeper"}, "layout"),
        ({"strategy": "sticky"}, "strategy"),
        ({"auto_offset_reset": "newest"}, "auto_offset_reset"),
        ({"streams": 0}, "streams"),
        ({"streams": 10_001}, "streams must be within 1..10000, got 10001"),
        ({"rebalance_max_retries": 0}, "rebalance_max_retries"),
        ({"rebalance_backoff_ms": -1}, "rebalance_backoff_ms"),
        ({"auto_commit_interval_ms": -1}, "auto_commit_interval_ms"),
        ({"auto_commit_interval_ms": 0}, "auto_commit_interval_ms"),
        ({"session_timeout_ms": 0}, "session_timeout_ms"),
        ({"streams": 1.5}, "streams must be a whole number"),
        ({"enable_auto_commit": "false"}, "enable_auto_commit must be True or False"),
        ({"rebalance_backoff_ms": 1_500}, "crash next door"),
    ],
)
def test_a_setting_out_of_range_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        member_settings(**({"group_id": "g"} | options))  # type: ignore[arg-type]
