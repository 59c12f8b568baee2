"""Checks the types of arguments and describes mistakes (decision).

It covers only common mistakes that would do harm or surface far from their cause: a str instead of
bytes, or one name instead of a list of names (a str is a list of letters, too).
"""

from collections.abc import Collection, Iterable
from operator import index
from typing import Any, Final

from kafkawire.ids import TopicPartition
from ottla.client.errors import ConfigurationError

MAX_TEXT_BYTES: Final = 2**15 - 1
"""Size limit of a string in Kafka's protocol."""


def require_names(argument: str, names: Iterable[str]) -> list[str]:
    """Return `names` as a list; errors call it `argument`.

    Raises:
        ConfigurationError: it is a single string, or an element is not a string.
    """
    if isinstance(names, str | bytes):
        raise ConfigurationError(f"{argument} must be a list of names: use [{names!r}]")
    listed = list(names)
    for name in listed:
        require_text(argument, name)
    return listed


def require_text(argument: str, value: object) -> None:
    """Require a string that Kafka's protocol can carry in UTF-8; errors call it `argument`.

    Raises:
        ConfigurationError: it is not a string, UTF-8 cannot encode it, or it is too long.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument} must be str, got {_shown(value)}")
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"{argument} must be text in UTF-8, got {value!r}") from None
    if size_bytes > MAX_TEXT_BYTES:
        raise ConfigurationError(
            f"{argument} must have at most {MAX_TEXT_BYTES} bytes, got {size_bytes}"
        )


def require_partition(value: Any) -> TopicPartition:
    """Return a pair of a topic's name and a number as a TopicPartition.

    Raises:
        ConfigurationError: it is no such pair.
    """
    try:
        topic, partition = value
        number = index(partition)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ConfigurationError(f"a partition is TopicPartition(topic, number), got {value!r}")
    require_text("a topic's name", topic)
    return TopicPartition(topic, number)


def record_mistake(value: object, key: object, headers: object) -> TypeError | None:
    """Return the error for the first part of a record that has a wrong type, None if all fit."""
    for name, part in (("value", value), ("key", key)):
        if not _is_bytes_or_none(part):
            return TypeError(f"{name} must be bytes or None, got {_shown(part)}{_hint(part)}")
    if isinstance(headers, str | bytes | dict) or not isinstance(headers, Collection):
        # An iterator has its pairs only once, although a record may need several attempts.
        return TypeError(f"headers must be a list of pairs of str and bytes, got {_shown(headers)}")
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            return TypeError(f"a header must be a pair of str and bytes, got {_shown(header)}")
        if not isinstance(header[0], str):
            return TypeError(f"a header's key must be str, got {_shown(header[0])}")
        if not _is_bytes_or_none(header[1]):
            return TypeError(
                f"a header's value must be bytes or None, got {_shown(header[1])}{_hint(header[1])}"
            )
    return None


def _is_bytes_or_none(part: object) -> bool:
    return part is None or isinstance(part, bytes | bytearray | memoryview)


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r}" if value is not None else "None"


def _hint(part: object) -> str:
    return ": use .encode()" if isinstance(part, str) else ""
