"""Decision: rules as text, under the names of Kafka's configs."""

from collections.abc import Sequence
from typing import Final

from analytics.task import Rules

_FIELDS: Final = {
    "now.ms": "now_ms",
    "delete.retention.ms": "delete_retention_ms",
    "tombstone.grace.ms": "tombstone_grace_ms",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "retention.slack.ms": "retention_slack_ms",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "key.limit": "key_limit",
    "finding.limit": "finding_limit",
    "hash.bytes": "hash_bytes",
}


def parse_rules(pairs: Sequence[str], *, is_strict: bool = False) -> Rules:
    """Parse rules from `KEY=VALUE` pairs; -1 means no limit, as in Kafka.

    Raises:
        ValueError: a key is unknown or a value is not a whole number; the message names the keys.
    """
    values: dict[str, int | None] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if key not in _FIELDS:
            raise ValueError(f"unknown rule {key!r}; the rules are {', '.join(_FIELDS)}")
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{pair!r}: {text!r} is not a whole number") from None
        values[_FIELDS[key]] = None if number < 0 else number
    return Rules(is_strict=is_strict, **values)  # type: ignore[arg-type]
