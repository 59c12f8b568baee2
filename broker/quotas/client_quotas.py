"""The quotas of users and clients, and their current use (decision).

The most specific quota that matches a client applies.
Source: ClientQuotaManager of Kafka 3.9; KIP-13, KIP-55.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Final

from broker.quotas.entity import CLIENT_ID, USER, QuotaEntity
from broker.quotas.rate import BURST_S, Rate

MAX_RATES: Final = 10_000
"""Number of rates from which on idle ones are dropped. If none is idle, new client ids of a user
that have no quota of their own share one rate: a flood of ids must reset no other rate."""
OTHERS: Final = "<others>"
"""The client id of a shared rate."""
MAX_SHARED_PAUSE_MS: Final = 10_000
"""Limit of the throttle time for a shared rate: the excess may be that of other clients."""
MAX_KEPT_LENGTH: Final = 128
"""Characters of a client id; of a longer one, the start and a hash are kept."""
SHOWN_LENGTH: Final = 32
"""Characters of that start."""

Names = tuple[tuple[str, str], ...]
RateKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """The use of one quota by a client, named by user and client id."""

    key: str
    client: tuple[str, str]
    rate: Rate


class ClientQuotas:
    """Configured quotas and their use; `is_set` holds the keys of which any quota is set."""

    def __init__(self) -> None:
        self.is_set: frozenset[str] = frozenset()
        self._quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        # The most recently active clients are at the end.
        self._rates: OrderedDict[RateKey, Rate] = OrderedDict()

    def set(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> bool:
        """Replace the quotas of `entity`; return whether they have changed."""
        if quotas == self._quotas.get(entity, {}):
            return False
        if quotas:
            self._quotas[entity] = quotas
        else:
            self._quotas.pop(entity, None)
        self.is_set = frozenset(key for each in self._quotas.values() for key in each)
        return True

    def limit(self, key: str, user: str, client_id: str) -> float | None:
        """Return a client's quota; None if it has none."""
        return self._find(key, user, client_id)[0]

    def burst(self, key: str, user: str, client_id: str) -> float | None:
        """Return the amount that a client may take at once without a delay; None for no limit."""
        limit = self.limit(key, user, client_id)
        return None if limit is None else limit * BURST_S

    def take(self, key: str, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Count `amount` for a client; return its throttle time in milliseconds."""
        limit, names, counted_as = self._find(key, user, client_id)
        if limit is None:
            return 0
        rate = self._rates.get(counted_as)
        is_shared = rate is None and self._is_full(now_ms) and (CLIENT_ID, "") in names
        if is_shared:
            counted_as = (key, user, OTHERS)
            rate = self._rates.get(counted_as)
        if rate is None:
            rate = self._rates[counted_as] = Rate()
        else:
            self._rates.move_to_end(counted_as)
        rate.add(amount, now_ms)
        pause_ms = rate.pause_ms(limit, now_ms)
        rate.throttle_ms = min(pause_ms, MAX_SHARED_PAUSE_MS) if is_shared else pause_ms
        return rate.throttle_ms

    def uses(self, most: int) -> list[QuotaUse]:
        """Return the rates that count against quotas, of the `most` last active clients."""
        return [
            QuotaUse(key=key, client=(user, client_id), rate=rate)
            for (key, user, client_id), rate in islice(reversed(self._rates.items()), most)
        ]

    def _is_full(self, now_ms: int) -> bool:
        """Drop idle rates for a new one; return whether there is no room for it."""
        while len(self._rates) >= MAX_RATES:
            least_active = next(iter(self._rates.values()))
            if not least_active.is_idle(now_ms):
                return True
            self._rates.popitem(last=False)
        return False

    def _find(self, key: str, user: str, client_id: str) -> tuple[float | None, Names, RateKey]:
        """Return a client's quota, its entity, and the key of the rate that counts against it."""
        for names, (counted_user, counted_id) in _candidates(user, client_id):
            limit = self._quotas.get(QuotaEntity(names), {}).get(key)
            if limit is not None:
                return limit, names, (key, counted_user, _kept(counted_id))
        return None, (), (key, user, client_id)


def _kept(client_id: str) -> str:
    if len(client_id) <= MAX_KEPT_LENGTH:
        return client_id
    return f"{client_id[:SHOWN_LENGTH]}...{sha256(client_id.encode()).hexdigest()}"


def _candidates(user: str, client_id: str) -> Iterator[tuple[Names, tuple[str, str]]]:
    """Yield the matching entities, most specific first, with the user and client to charge."""
    for user_name in (user, ""):
        for client_name in (client_id, ""):
            yield ((USER, user_name), (CLIENT_ID, client_name)), (user, client_id)
        yield ((USER, user_name),), (user, "")
    for client_name in (client_id, ""):
        yield ((CLIENT_ID, client_name),), ("", client_id)
