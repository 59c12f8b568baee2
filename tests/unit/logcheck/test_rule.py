"""Rules for all topics, and for one topic."""

import pytest

from logcheck.rule import parse_rules


def test_rule_of_a_topic_takes_precedence() -> None:
    rules = parse_rules(
        ["delete.retention.ms=5", "my.topic:delete.retention.ms=9", "cleanup.policy=delete"]
    )
    assert rules.of_topic("other").delete_retention_ms == 5
    mine = rules.of_topic("my.topic")
    assert (mine.delete_retention_ms, mine.cleanup_policy) == (9, "delete")
    assert mine.of_topic("my.topic") == mine


def test_policies_have_one_order() -> None:
    assert parse_rules(["t:cleanup.policy=delete, compact"]).of_topic("t").cleanup_policy == (
        "compact,delete"
    )


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("cleanup.policy=keep", "'keep' is not a cleanup policy"),
        ("t:retention.ms=soon", "'soon' is not a whole number"),
        ("t:colour=red", "unknown rule 'colour'"),
    ],
)
def test_malformed_rule_is_refused(pair: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_rules([pair])
