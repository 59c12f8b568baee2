"""Checks the types of arguments and describes mistakes (decision).

It covers only common mistakes that would do harm or surface far from their cause: a str instead of
bytes, one name instead of a list of names (a str is a list of letters, too), or a number that is
none (nan), that no request can carry, or that is a flag (True is 1, too).
"""

from collections.abc import Collection, Iterable, Mapping
from operator import index
from types import UnionType
from typing import Any, Final, TypeVar

from kafkawire.ids import TopicPartition
from ottla.client.errors import ConfigurationError

MAX_TEXT_BYTES: Final = 2**15 - 1
"""Size limit of a string in Kafka's protocol."""
MAX_INT32: Final = 2**31 - 1
MIN_INT32: Final = -(2**31)

V = TypeVar("V")


def require_list(argument: str, kind: str, values: Iterable[V]) -> list[V]:
    """Return `values`, a list or another iterable, as a list; errors call it `argument`.

    Raises:
        ConfigurationError: it is a single string, or not iterable.
    """
    if isinstance(values, str | bytes):
        raise ConfigurationError(f"{argument} must be a list of {kind}: use [{values!r}]")
    if not isinstance(values, Iterable):
        raise ConfigurationError(f"{argument} must be a list of {kind}, got {_shown(values)}")
    return list(values)


def require_names(argument: str, names: Iterable[str]) -> list[str]:
    """Return `names` as a list, each once; errors call it `argument`.

    Raises:
        ConfigurationError: it is a single string or not iterable, or an element is not a string.
    """
    listed = require_list(argument, "names", names)
    for name in listed:
        require_text(argument, name)
    return list(dict.fromkeys(listed))


def require_text(argument: str, value: object) -> None:
    """Require a string that Kafka's protocol can carry in UTF-8; errors call it `argument`.

    Raises:
        ConfigurationError: it is not a string, UTF-8 cannot encode it, or it is too long.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument} must be str, got {_shown(value)}")
    if not _is_utf_8(value):
        raise ConfigurationError(f"{argument} must be text in UTF-8, got {value!r}")
    size_bytes = len(value.encode())
    if size_bytes > MAX_TEXT_BYTES:
        raise ConfigurationError(
            f"{argument} must have at most {MAX_TEXT_BYTES} bytes, got {size_bytes}"
        )


def require_topic(name: object) -> None:
    """Require the name of a topic.

    Raises:
        ConfigurationError: as `require_text`, or it is empty.
    """
    require_text("a topic's name", name)
    if not name:
        raise ConfigurationError("a topic's name must not be empty")


def whole_number(value: object) -> int | None:
    """Return a whole number, such as one of numpy, as an int; None for any other value."""
    if isinstance(value, bool):
        return None
    try:
        # Not int(), which cuts off a fraction.
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def require_whole(argument: str, value: object, low: int, high: int = MAX_INT32) -> int:
    """Return a whole number as an int; errors call it `argument`.

    Raises:
        ConfigurationError: it is none, or not within `low` to `high`.
    """
    number = whole_number(value)
    if number is None:
        raise ConfigurationError(f"{argument} must be a whole number, got {value!r}")
    if not low <= number <= high:
        raise ConfigurationError(f"{argument} must be within {low}..{high}, got {number}")
    return number


def require_duration(argument: str, value: object) -> None:
    """Require a number of ms, which may have a fraction; errors call it `argument`.

    Raises:
        ConfigurationError: it is no number, or not within 0 to MAX_INT32.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(f"{argument} must be a number of ms, got {_shown(value)}")
    if not 0 <= value <= MAX_INT32:
        raise ConfigurationError(f"{argument} must be within 0..{MAX_INT32}, got {value!r}")


def require_flag(argument: str, value: object) -> None:
    """Require True or False: a text such as "false" would count as True.

    Raises:
        ConfigurationError: it is another value.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{argument} must be True or False, got {_shown(value)}")


def require_partition(value: Any) -> TopicPartition:
    """Return a pair of a topic's name and a number as a TopicPartition.

    Raises:
        ConfigurationError: it is no such pair.
    """
    try:
        topic, partition = value
        number = whole_number(partition)
    except (TypeError, ValueError):
        number = None
    if number is None or not 0 <= number <= MAX_INT32:
        raise ConfigurationError(f"a partition is TopicPartition(topic, number), got {value!r}")
    require_topic(topic)
    return TopicPartition(topic, number)


def require_partitions(argument: str, values: Iterable[Any]) -> list[TopicPartition]:
    """Return `values` as TopicPartitions, each once; errors call all of them `argument`.

    Raises:
        ConfigurationError: it is a single string or partition, or not iterable, or an element is
            no partition.
    """
    if isinstance(values, TopicPartition):
        raise ConfigurationError(f"{argument} must be a list of partitions: use [{values!r}]")
    listed = require_list(argument, "partitions", values)
    return list(dict.fromkeys(map(require_partition, listed)))


def require_by_partition(argument: str, values: Mapping[Any, V]) -> dict[TopicPartition, V]:
    """Return `values` with TopicPartitions as keys; errors call it `argument`.

    Raises:
        ConfigurationError: it is no mapping, or a key is no partition.
    """
    require_mapping(argument, values)
    return {require_partition(each): value for each, value in values.items()}


def require_instance(argument: str, kind: type | UnionType, value: object) -> None:
    """Require an object of class `kind`; errors call it `argument`.

    Raises:
        ConfigurationError: it is of another class.
    """
    if not isinstance(value, kind):
        expected = getattr(kind, "__name__", str(kind))
        raise ConfigurationError(f"{argument} must be {expected}, got {type(value).__name__}")


def require_mapping(argument: str, values: object) -> None:
    """Require a dict or another mapping; errors call it `argument`.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"{argument} must be a dict, got {_shown(values)}")


def require_bytes(argument: str, value: object) -> None:
    """Require bytes; errors call it `argument`, and never quote it.

    Raises:
        ConfigurationError: it is another value.
    """
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ConfigurationError(f"{argument} must be bytes, got {type(value).__name__}")


def record_mistake(value: object, key: object, headers: object) -> TypeError | ValueError | None:
    """Return the error for the first part of a record that cannot be sent, None if all fit."""
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
        if not _is_utf_8(header[0]):
            return ValueError(f"a header's key must be text in UTF-8, got {header[0]!r}")
        if not _is_bytes_or_none(header[1]):
            return TypeError(
                f"a header's value must be bytes or None, got {_shown(header[1])}{_hint(header[1])}"
            )
    return None


def _is_utf_8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_bytes_or_none(part: object) -> bool:
    return part is None or isinstance(part, bytes | bytearray | memoryview)


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r}" if value is not None else "None"


def _hint(part: object) -> str:
    return ": use .encode()" if isinstance(part, str) else ""
