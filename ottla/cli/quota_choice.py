"""Quota entities and values on the command line (decision)."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.cli.terminal import Cell
from ottla.cli.text import JsonValue
from ottla.client.admin_model import ClientQuota

KINDS: Final = ("user", "client-id", "ip")
DEFAULT_NAME: Final = "(default)"


def parse_entity(names: Mapping[str, str | None], defaults: Sequence[str]) -> dict[str, str | None]:
    """Return the names of an entity by kind; None is the default of a kind in `defaults`.

    Raises:
        ValueError: a kind of `defaults` does not exist, or is named, too.
    """
    entity: dict[str, str | None] = {kind: name for kind, name in names.items() if name is not None}
    for kind in defaults:
        if kind not in KINDS:
            raise ValueError(f"--default must be one of {', '.join(KINDS)}, got {kind!r}")
        if kind in entity:
            raise ValueError(f"--default {kind} and --{kind} exclude each other")
        entity[kind] = None
    return entity


def parse_changes(settings: Sequence[str], deleted: Sequence[str]) -> dict[str, float | None]:
    """Return the new values of `KEY=NUMBER` texts, and None for the keys in `deleted`.

    Raises:
        ValueError: a text is not of that form, a key is changed twice, or there is no change.
    """
    changes: dict[str, float | None] = {}
    for setting in settings:
        key, separator, number = setting.partition("=")
        value = _number(number)
        if not separator or not key or value is None:
            raise ValueError(f"{setting!r} is not of the form KEY=NUMBER")
        if key in changes:
            raise ValueError(f"{key} is set twice")
        changes[key] = value
    for key in deleted:
        if key in changes:
            raise ValueError(f"{key} is set and deleted")
        changes[key] = None
    if not changes:
        raise ValueError("nothing to change: give --set or --delete")
    return changes


def to_rows(quotas: Sequence[ClientQuota]) -> list[list[Cell]]:
    """Return a row per quota."""
    return sorted(
        [entity_text(quota.entity), key, number_text(value)]
        for quota in quotas
        for key, value in quota.values.items()
    )


def to_json(quotas: Sequence[ClientQuota]) -> JsonValue:
    """Return the quotas of each entity; the name of a default entity is null."""
    return [
        {"entity": dict(quota.entity), "quotas": dict(quota.values)}
        for quota in sorted(quotas, key=lambda each: entity_text(each.entity))
    ]


def entity_text(entity: Mapping[str, str | None]) -> str:
    """Return an entity like `user=alice, client-id=(default)`."""
    return ", ".join(
        f"{kind}={DEFAULT_NAME if name is None else name}" for kind, name in sorted(entity.items())
    )


def number_text(value: float) -> str:
    """Return a quota without a needless fraction."""
    return str(int(value)) if value.is_integer() else str(value)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
