"""Decision: names of places, which are paths or URIs, with the options that a URI may end with.

    /var/kafka/orders-0
    s3://bucket/broker-1/orders-0?region=eu-west-1&endpoint_override=127.0.0.1:9000&scheme=http

What is found below a URI keeps its options: whoever reads it, on whichever machine, needs them.
"""

from typing import Final

_REMOTE_MARK: Final = "://"


def is_remote(place: str) -> bool:
    """Whether `place` is a URI rather than a path."""
    return _REMOTE_MARK in place


def split_options(place: str) -> tuple[str, str]:
    """The place without its options, and the options with their question mark."""
    if not is_remote(place):
        return place, ""
    start, mark, options = place.partition("?")
    return start, mark + options


def split_store(place: str) -> tuple[str, str]:
    """Of a URI: the store, with its options, and the path in it."""
    start, options = split_options(place)
    scheme, mark, rest = start.partition(_REMOTE_MARK)
    authority, _, path = rest.partition("/")
    return f"{scheme}{mark}{authority}/{options}", path.rstrip("/")


def without_end(place: str) -> str:
    """The place without slashes at its end."""
    start, options = split_options(place)
    if start.endswith(_REMOTE_MARK):
        return place
    return (start.rstrip("/") or "/") + options


def name_of(place: str) -> str:
    """The last name in the place."""
    return split_options(without_end(place))[0].rpartition("/")[2]


def parent_of(place: str) -> str:
    """The directory that holds the place; `.` for a name alone."""
    start, options = split_options(without_end(place))
    return (start.rpartition("/")[0] or ("/" if start.startswith("/") else ".")) + options


def child_of(place: str, name: str) -> str:
    """The place of a name in the directory `place`."""
    start, options = split_options(place)
    return f"{start.rstrip('/')}/{name}{options}"


def with_suffix(place: str, suffix: str) -> str:
    """The file of the same segment that ends with `suffix`, such as `.index`."""
    start, options = split_options(place)
    return start.rpartition(".")[0] + suffix + options
