"""JSON of bounded depth from hosts that are not trusted (decision)."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

MAX_DEPTH: Final = 16
"""Limit of nested arrays and objects."""

# A string may lack its end: no part can fail, so the search takes linear time.
_STRING_OR_BRACKET: Final = re.compile(rb'"(?:[^"\\]+|\\.)*"?|[\[{\]}]', re.DOTALL)


class JsonError(ValueError):
    """Not an object in JSON, or one that two readers might understand differently."""


def parse_object(data: bytes) -> dict[str, object]:
    """Return the object that `data` holds; the caller limits its size.

    Raises:
        JsonError: it is no object, too deep, has a name twice, or a number that is none.
    """
    if _depth(data) > MAX_DEPTH:
        raise JsonError("has too many levels of arrays and objects")
    try:
        found = json.loads(
            data.decode(), object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
    except JsonError:
        raise
    except ValueError:
        raise JsonError("is not JSON in UTF-8") from None
    if not isinstance(found, dict):
        raise JsonError("is not an object")
    return found


def _depth(data: bytes) -> int:
    """Return an upper bound of the depth: brackets in text that is no JSON count as well."""
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.findall(data):
        if found in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif found in (b"]", b"}"):
            depth -= 1
    return deepest


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise JsonError("has a name twice")
    return found


def _refuse_constant(_name: str) -> NoReturn:
    raise JsonError("has a number that JSON does not have")
