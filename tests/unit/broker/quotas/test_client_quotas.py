"""Which quota counts, and against whose use: `broker.quotas.client_quotas`."""

import pytest

from broker.quotas import client_quotas
from broker.quotas.client_quotas import ANONYMOUS, ClientQuotas
from broker.quotas.entity import PRODUCER_BYTE_RATE, QuotaEntity

NOW_MS = 1_000_000
IN_ORDER: list[list[tuple[str, str | None]]] = [
    [("user", ANONYMOUS), ("client-id", "c")],
    [("user", ANONYMOUS), ("client-id", None)],
    [("user", ANONYMOUS)],
    [("user", None), ("client-id", "c")],
    [("user", None), ("client-id", None)],
    [("user", None)],
    [("client-id", "c")],
    [("client-id", None)],
]


def quota(quotas: ClientQuotas, limit: float, *names: tuple[str, str | None]) -> None:
    quotas.set(QuotaEntity.of(names), {PRODUCER_BYTE_RATE: limit})


def test_the_most_specific_quota_counts() -> None:
    quotas = ClientQuotas()
    for number, names in reversed(list(enumerate(IN_ORDER, start=1))):
        quota(quotas, number, *names)
        assert quotas.limit(PRODUCER_BYTE_RATE, "c") == number
    assert quotas.limit("consumer_byte_rate", "c") is None


def test_what_is_taken_back_counts_no_more() -> None:
    quotas = ClientQuotas()
    quota(quotas, 100, ("client-id", "c"))
    assert quotas.is_set == {PRODUCER_BYTE_RATE}
    assert quotas.burst(PRODUCER_BYTE_RATE, "c") == 1000
    quotas.set(QuotaEntity.of([("client-id", "c")]), {})
    assert quotas.is_set == frozenset()
    assert quotas.burst(PRODUCER_BYTE_RATE, "c") is None
    assert quotas.take(PRODUCER_BYTE_RATE, "c", 10**9, NOW_MS) == 0


def test_clients_under_a_default_are_counted_each_for_itself() -> None:
    quotas = ClientQuotas()
    quota(quotas, 100, ("client-id", None))
    assert quotas.take(PRODUCER_BYTE_RATE, "a", 2000, NOW_MS) > 0
    assert quotas.take(PRODUCER_BYTE_RATE, "b", 500, NOW_MS) == 0


def test_clients_of_a_user_are_counted_together() -> None:
    quotas = ClientQuotas()
    quota(quotas, 100, ("user", None))
    assert quotas.take(PRODUCER_BYTE_RATE, "a", 900, NOW_MS) == 0
    assert quotas.take(PRODUCER_BYTE_RATE, "b", 900, NOW_MS) > 0


def test_clients_that_rest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_RATES", 2)
    quotas = ClientQuotas()
    quota(quotas, 100, ("client-id", None))
    for client in "ab":
        quotas.take(PRODUCER_BYTE_RATE, client, 2000, NOW_MS)
    quotas.take(PRODUCER_BYTE_RATE, "c", 1, NOW_MS)
    assert quotas.take(PRODUCER_BYTE_RATE, "a", 1, NOW_MS) > 0, "it does not rest"
    quotas.take(PRODUCER_BYTE_RATE, "d", 1, NOW_MS + 60_000)
    assert quotas.take(PRODUCER_BYTE_RATE, "a", 1, NOW_MS + 60_000) == 0
