"""Rules for all topics, and for one topic."""

import pytest

from logcheck.rule import Rules, parse_rules


def test_rule_of_a_topic_takes_precedence() -> None:
    rules = parse_rules(
        ["delete.retention.ms=5", "my.topic:delete.retention.ms=9", "cleanup.policy=delete"]
    )
    assert rules.of_topic("other").delete_retention_ms == 5
    mine = rules.of_topic("my.topic")
    assert (mine.delete_retention_ms, mine.cleanup_policy) == (9, "delete")
    assert mine.of_topic("my.topic") == mine


def test_tombstones_are_due_until_a_time_that_no_honest_clock_shows() -> None:
    rules = Rules(now_ms=1_000, delete_retention_ms=100, message_timestamp_after_max_ms=7)
    due = rules.due_tombstones_ms
    assert [each in due for each in (907, 908, 1_007, 1_008)] == [False, True, True, False]


def test_policies_have_one_order() -> None:
    assert parse_rules(["t:cleanup.policy=delete, compact"]).of_topic("t").cleanup_policy == (
        "compact,delete"
    )


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("cleanup.policy=keep", "'keep' is not a cleanup policy"),
        ("t:retention.ms=soon", "retention.ms: 'soon' is not a whole number"),
        ("retention.ms=-2", "retention.ms: -2 is below -1"),
        ("t:delete.retention.ms=-1", "delete.retention.ms: -1 is below 0"),
        ("key.limit=0", "key.limit: 0 is below 1"),
        ("hash.bytes=17", "hash.bytes: 17 is above 16"),
        ("t:colour=red", "unknown rule 'colour'"),
    ],
)
def test_malformed_rule_is_refused(pair: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_rules([pair])
