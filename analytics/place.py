"""Places, which are paths or URIs, and the options at the end of a URI (decision).

    /var/kafka/orders-0
    s3://bucket/broker-1/orders-0?region=eu-west-1&endpoint_override=127.0.0.1:9000&scheme=http

Places below a URI keep its options, because every machine that reads them needs the options.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

_REMOTE_MARK: Final = "://"


def is_remote(place: str) -> bool:
    """Whether `place` is a URI rather than a path."""
    return _REMOTE_MARK in place


def split_options(place: str) -> tuple[str, str]:
    """Return the place without its options, and the options with their question mark."""
    if not is_remote(place):
        return place, ""
    start, mark, options = place.partition("?")
    return start, mark + options


def split_store(place: str) -> tuple[str, str]:
    """Split a URI into the store, with the options, and the path in the store."""
    start, options = split_options(place)
    scheme, mark, rest = start.partition(_REMOTE_MARK)
    authority, _, path = rest.partition("/")
    return f"{scheme}{mark}{authority}/{options}", path.rstrip("/")


def without_end(place: str) -> str:
    """Return the place without trailing slashes."""
    start, options = split_options(place)
    if start.endswith(_REMOTE_MARK):
        return place
    return (start.rstrip("/") or "/") + options


def name_of(place: str) -> str:
    """Return the last name in the place."""
    return split_options(without_end(place))[0].rpartition("/")[2]


def parent_of(place: str) -> str:
    """Return the parent directory of the place; `.` for a bare name."""
    start, options = split_options(without_end(place))
    return (start.rpartition("/")[0] or ("/" if start.startswith("/") else ".")) + options


def child_of(place: str, name: str) -> str:
    """Return the place of `name` in the directory `place`."""
    start, options = split_options(place)
    return f"{start.rstrip('/')}/{name}{options}"


def join_places(places: Iterable[str]) -> str:
    """Return places, which may contain commas, as the option `paths` of a data source.

    Spark makes the same value of a list that `load` gets.
    """
    return json.dumps(list(places))


def places_in(options: Mapping[str, str]) -> list[str]:
    """Return the places in the options `path` and `paths` of a data source.

    A value is a list in JSON, or has commas between the places.
    """
    return [place for name in ("path", "paths") for place in _split(options.get(name, "")) if place]


def _split(value: str) -> list[str]:
    if value.startswith("["):
        with suppress(ValueError):
            listed = json.loads(value)
            if all(isinstance(each, str) for each in listed):
                return list(listed)
    return value.split(",")
