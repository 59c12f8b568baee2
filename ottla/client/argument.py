"""Says what is wrong with an argument of the wrong type. Decision: no I/O.

Only the common mistakes, and only where they would do harm or end far from their cause: text where
bytes belong, one name where a list of names belongs (which is a list of letters, too).
"""

from collections.abc import Iterable

from ottla.client.errors import ConfigurationError


def require_names(what: str, names: Iterable[str]) -> list[str]:
    """Return `names` as a list.

    Raises:
        ConfigurationError: it is a single string, or holds something else than strings.
    """
    if isinstance(names, str | bytes):
        raise ConfigurationError(f"{what} must be a list of names: use [{names!r}]")
    listed = list(names)
    for name in listed:
        require_text(what, name)
    return listed


def require_text(what: str, value: object) -> None:
    """Return when `value` is a string that can be sent.

    Raises:
        ConfigurationError: it is none, or holds what UTF-8 has no bytes for.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"{what} must be str, got {_told(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{what} must be text in UTF-8, got {value!r}") from None


def record_mistake(value: object, key: object, headers: object) -> TypeError | None:
    """Return what is wrong with the types of a record's parts, None if nothing is."""
    for name, part in (("value", value), ("key", key)):
        if not _is_bytes_or_none(part):
            return TypeError(f"{name} must be bytes or None, got {_told(part)}{_hint(part)}")
    if isinstance(headers, str | bytes | dict) or not isinstance(headers, Iterable):
        return TypeError(f"headers must be pairs of str and bytes, got {_told(headers)}")
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            return TypeError(f"a header must be a pair of str and bytes, got {_told(header)}")
        if not isinstance(header[0], str):
            return TypeError(f"a header's key must be str, got {_told(header[0])}")
        if not _is_bytes_or_none(header[1]):
            return TypeError(
                f"a header's value must be bytes or None, got {_told(header[1])}{_hint(header[1])}"
            )
    return None


def _is_bytes_or_none(part: object) -> bool:
    return part is None or isinstance(part, bytes | bytearray | memoryview)


def _told(value: object) -> str:
    return f"{type(value).__name__} {value!r}" if value is not None else "None"


def _hint(part: object) -> str:
    return ": use .encode()" if isinstance(part, str) else ""
