"""Subscriptions by a regular expression (decision).

Internal topics never match, as with Kafka's exclude.internal.topics.
"""

import re

from ottla.client.cluster_metadata import ClusterMetadata
from ottla.client.errors import ConfigurationError


def parse_pattern(pattern: object) -> re.Pattern[str]:
    """Return `pattern` compiled.

    Raises:
        ConfigurationError: it is neither text nor a compiled pattern of text, or is malformed.
    """
    try:
        compiled = re.compile(pattern)  # type: ignore[call-overload]
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise ConfigurationError(
            f"pattern must be a regular expression, got {pattern!r}: {error}"
        ) from None
    if not isinstance(compiled.pattern, str):
        raise ConfigurationError(f"pattern must be text, got {pattern!r}")
    found: re.Pattern[str] = compiled
    return found


def matching_topics(pattern: re.Pattern[str], metadata: ClusterMetadata) -> frozenset[str]:
    """Return the topics whose whole name matches `pattern`."""
    return frozenset(
        name
        for name, topic in metadata.topics.items()
        if topic.partitions and not topic.is_internal and pattern.fullmatch(name)
    )
