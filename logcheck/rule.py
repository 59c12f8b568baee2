"""The rules of offline checks: broker and topic parameters that no file contains (decision)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from logcheck.history import POLICIES

DAY_MS: Final = 24 * 60 * 60 * 1000
CLEANUP_POLICY: Final = "cleanup.policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The parameters of the checks; the defaults are Kafka's defaults for topics."""

    now_ms: int = 0
    cleanup_policy: str | None = None
    """The topic's policy; None if it is not known, `delete` if it was never compacted."""
    delete_retention_ms: int = DAY_MS
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    """The greatest lead of a client's clock over the broker's that the broker accepts."""
    tombstone_grace_ms: int = 7 * DAY_MS
    """Time after its delete horizon from which a tombstone that waits for a cleaning is a note."""
    retention_ms: int | None = None
    retention_bytes: int | None = None
    retention_slack_ms: int = 300_000
    """The interval of Kafka's retention task."""
    transaction_timeout_ms: int = 15 * 60 * 1000
    is_strict: bool = False
    """Whether the index shape that only Kafka up to 3.9.0 writes is a finding."""
    key_limit: int = 8_000_000
    """Maximum number of keys in one worker's table; larger partitions are audited in shards."""
    finding_limit: int = 200
    """Maximum number of findings of one kind in one partition that are listed one by one."""
    hot_key_count: int = 10
    hash_bytes: int = 16
    """Number of bytes of a key's MD5 that the cleaner keeps."""
    by_topic: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The fields that differ for a topic."""

    @property
    def due_tombstones_ms(self) -> range:
        """The timestamps with which every tombstone must still exist.

        A tombstone stays for `delete.retention.ms` after its first cleaning, by the broker's clock;
        its timestamp may come from a client whose clock is ahead. A timestamp that is even further
        ahead says nothing, as the broker has not enforced the rule.
        """
        newest_ms = self.now_ms + self.message_timestamp_after_max_ms
        return range(newest_ms - self.delete_retention_ms + 1, newest_ms + 1)

    def of_topic(self, topic: str) -> "Rules":
        """Return the rules for one topic."""
        return replace(self, by_topic={}, **self.by_topic.get(topic, {}))


_FIELDS: Final = {
    "now.ms": "now_ms",
    CLEANUP_POLICY: "cleanup_policy",
    "delete.retention.ms": "delete_retention_ms",
    "message.timestamp.after.max.ms": "message_timestamp_after_max_ms",
    "tombstone.grace.ms": "tombstone_grace_ms",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "retention.slack.ms": "retention_slack_ms",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "key.limit": "key_limit",
    "finding.limit": "finding_limit",
    "hash.bytes": "hash_bytes",
}
NO_LIMIT: Final = -1
MD5_BYTES: Final = 16
_LEAST: Final = {
    "retention.ms": NO_LIMIT,
    "retention.bytes": NO_LIMIT,
    "key.limit": 1,
    "hash.bytes": 1,
}
"""The smallest value of a rule; 0 for the others."""
_GREATEST: Final = {"hash.bytes": MD5_BYTES}


def parse_rules(pairs: Sequence[str], *, is_strict: bool = False) -> Rules:
    """Parse rules from `KEY=VALUE` and `TOPIC:KEY=VALUE`; as in Kafka, -1 does not limit retention.

    Raises:
        ValueError: a key is unknown or a value is invalid; the message names the choices.
    """
    values: dict[str, Any] = {}
    by_topic: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        place, _, text = pair.partition("=")
        topic, _, key = place.rpartition(":")
        if key not in _FIELDS:
            raise ValueError(f"unknown rule {key!r}; the rules are {', '.join(_FIELDS)}")
        fields = by_topic.setdefault(topic, {}) if topic else values
        is_policy = key == CLEANUP_POLICY
        fields[_FIELDS[key]] = _parse_policy(text) if is_policy else _parse_number(key, text)
    return Rules(is_strict=is_strict, by_topic=by_topic, **values)


def _parse_policy(text: str) -> str:
    policies = {part.strip() for part in text.split(",")}
    if not POLICIES.issuperset(policies):
        choices = "compact, delete or compact,delete"
        raise ValueError(f"{text!r} is not a cleanup policy; the policies are {choices}")
    return ",".join(sorted(policies))


def _parse_number(key: str, text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{key}: {text!r} is not a whole number") from None
    least, greatest = _LEAST.get(key, 0), _GREATEST.get(key)
    if number < least:
        raise ValueError(f"{key}: {number} is below {least}")
    if greatest is not None and number > greatest:
        raise ValueError(f"{key}: {number} is above {greatest}")
    return None if number == NO_LIMIT else number
