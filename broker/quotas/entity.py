"""The entity of a quota (a user, a client, both, or an address) and its path (decision).

Paths: `/config/users/<user>[/clients/<client>]`, `/config/clients/<client>`, `/config/ips/<ip>`.
Names of users and clients are encoded like in Kafka; `<default>` applies to all entities without
quotas of their own.
Source: ZkAdminManager, Sanitizer of Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final
from urllib.parse import unquote

from clusterstate.znodes.paths import DEFAULT_ENTITY, sanitized
from kafkawire.errors import ApiError, ErrorCode
from storage.config.config_key import INT_MAX, LONG_MAX

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
WHOLE_KEYS: Final[Mapping[str, int]] = {
    PRODUCER_BYTE_RATE: LONG_MAX,
    CONSUMER_BYTE_RATE: LONG_MAX,
    "connection_creation_rate": INT_MAX,
}
"""Quotas that must be whole numbers, with their maximums."""
IP_KEYS: Final = frozenset({"connection_creation_rate"})
CLIENT_KEYS: Final = frozenset(
    {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, "request_percentage", "controller_mutation_rate"}
)
_ROUNDING: Final = 1e-6
_HOST: Final = re.compile(r"[0-9A-Za-z:._-]+")


@dataclass(frozen=True, slots=True, order=True)
class QuotaEntity:
    """Kinds and names, in the order user, client, address; the name "" is the default entity."""

    names: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, names: Iterable[tuple[str, str | None]]) -> QuotaEntity:
        """Return the entity that a request names; the name None is the default entity.

        Raises:
            ApiError: INVALID_REQUEST, if such an entity cannot have quotas.
        """
        given = list(names)
        by_kind = dict(given)
        if "" in by_kind.values():
            raise _invalid("a name must not be empty")
        if len(by_kind) < len(given):
            raise _invalid("a kind of entity is named twice")
        if unknown := sorted(by_kind.keys() - {USER, CLIENT_ID, IP}):
            raise _invalid(f"entities of kind {unknown[0]} have no quotas")
        if not by_kind or (IP in by_kind and len(by_kind) > 1):
            raise _invalid("an entity must be a user, a client, both, or an address")
        if by_kind.get(IP) is not None and not _HOST.fullmatch(by_kind[IP] or ""):
            # A broker of Kafka that finds such a quota in the coordinator does not start.
            raise _invalid(f"{by_kind[IP]!r} is neither an address nor the name of a host")
        return cls(
            tuple((kind, by_kind[kind] or "") for kind in (USER, CLIENT_ID, IP) if kind in by_kind)
        )

    @classmethod
    def at(cls, path: str) -> QuotaEntity | None:
        """Return the entity with its configs at `path` below `/config`; None if there is none."""
        match path.split("/"):
            case ["users", user]:
                return cls(((USER, _decoded(user)),))
            case ["users", user, "clients", client]:
                return cls(((USER, _decoded(user)), (CLIENT_ID, _decoded(client))))
            case ["clients", client]:
                return cls(((CLIENT_ID, _decoded(client)),))
            case ["ips", ip]:
                return cls(((IP, _decoded(ip)),))
        return None

    @property
    def path(self) -> str:
        """Path of its configs, relative to `/config`."""
        names = {kind: _encoded(name) for kind, name in self.names}
        if IP in names:
            # Kafka's brokers look this name up as it is, and do not start if it is unknown. An
            # encoded address of IPv6 would be.
            return f"ips/{self.names[0][1] or DEFAULT_ENTITY}"
        if USER not in names:
            return f"clients/{names[CLIENT_ID]}"
        user = f"users/{names[USER]}"
        return f"{user}/clients/{names[CLIENT_ID]}" if CLIENT_ID in names else user

    @property
    def keys(self) -> frozenset[str]:
        """Keys of the quotas that it can have."""
        return IP_KEYS if self.names[0][0] == IP else CLIENT_KEYS


def altered(
    configs: Mapping[str, str], entity: QuotaEntity, ops: Iterable[tuple[str, float | None]]
) -> dict[str, str]:
    """Return an entity's configs after `ops`; the value None removes a key.

    Raises:
        ApiError: INVALID_REQUEST, for an unknown key or an illegal value.
    """
    result = dict(configs)
    for key, value in ops:
        if value is None:
            result.pop(key, None)
        elif key not in entity.keys:
            raise _invalid(f"{key} is not a quota of this kind of entity")
        else:
            result[key] = _text(key, value)
    return result


def quotas_of(configs: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas among an entity's configs; others than finite numbers are left out."""
    found: dict[str, float] = {}
    for key in CLIENT_KEYS | IP_KEYS:
        try:
            value = float(configs[key])
        except (KeyError, ValueError):
            continue
        # A tool may have written any text. No time and no number of bytes follows from these.
        if isfinite(value):
            found[key] = value
    return found


def _text(key: str, value: float) -> str:
    if not isfinite(value):
        raise _invalid(f"{key}={value}: must be a number")
    if key not in WHOLE_KEYS:
        return str(value)
    whole = int(value + _ROUNDING)
    if abs(whole - value) > _ROUNDING or whole > WHOLE_KEYS[key]:
        raise _invalid(f"{key}={value}: must be a whole number up to {WHOLE_KEYS[key]}")
    return str(whole)


def _encoded(name: str) -> str:
    return sanitized(name) if name else DEFAULT_ENTITY


def _decoded(name: str) -> str:
    return "" if name == DEFAULT_ENTITY else unquote(name)


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)
