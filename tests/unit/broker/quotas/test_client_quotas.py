"""Selection of the quota for a request, and its accounting: `broker.quotas.client_quotas`."""

import pytest

from broker.quotas import client_quotas
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import PRODUCER_BYTE_RATE, QuotaEntity
from broker.security import principal

ANONYMOUS = principal.ANONYMOUS.name
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


def test_most_specific_quota_counts() -> None:
    quotas = ClientQuotas()
    for number, names in reversed(list(enumerate(IN_ORDER, start=1))):
        quota(quotas, number, *names)
        assert quotas.limit(PRODUCER_BYTE_RATE, ANONYMOUS, "c") == number
    assert quotas.limit("consumer_byte_rate", ANONYMOUS, "c") is None


def test_removed_quota_no_longer_counts() -> None:
    quotas = ClientQuotas()
    quota(quotas, 100, ("client-id", "c"))
    assert quotas.is_set == {PRODUCER_BYTE_RATE}
    assert quotas.burst(PRODUCER_BYTE_RATE, ANONYMOUS, "c") == 1000
    quotas.set(QuotaEntity.of([("client-id", "c")]), {})
    assert quotas.is_set == frozenset()
    assert quotas.burst(PRODUCER_BYTE_RATE, ANONYMOUS, "c") is None
    assert quotas.take(PRODUCER_BYTE_RATE, ANONYMOUS, "c", 10**9, NOW_MS) == 0


def test_clients_under_a_default_quota_are_counted_separately() -> None:
    quotas = ClientQuotas()
    quota(quotas, 100, ("client-id", None))
    assert quotas.take(PRODUCER_BYTE_RATE, ANONYMOUS, "a", 2000, NOW_MS) > 0
    assert quotas.take(PRODUCER_BYTE_RATE, ANONYMOUS, "b", 500, NOW_MS) == 0


def test_clients_of_a_user_are_counted_together() -> None:
    quotas = ClientQuotas()
    quota(quotas, 100, ("user", None))
    assert quotas.take(PRODUCER_BYTE_RATE, ANONYMOUS, "a", 900, NOW_MS) == 0
    assert quotas.take(PRODUCER_BYTE_RATE, ANONYMOUS, "b", 900, NOW_MS) > 0


def test_quota_of_the_requesting_user_counts() -> None:
    quotas = ClientQuotas()
    quota(quotas, 100, ("user", "anna"))
    quota(quotas, 7, ("user", None))
    assert quotas.limit(PRODUCER_BYTE_RATE, "anna", "c") == 100
    assert quotas.limit(PRODUCER_BYTE_RATE, ANONYMOUS, "c") == 7


def test_least_recently_active_client_is_evicted_at_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_quotas, "MAX_RATES", 2)
    quotas = ClientQuotas()
    quota(quotas, 100, ("client-id", None))

    def take(client: str, amount: int = 1) -> int:
        return quotas.take(PRODUCER_BYTE_RATE, ANONYMOUS, client, amount, NOW_MS)

    take("a", 2000)
    take("b", 2000)
    assert take("a") > 0
    assert take("c") == 0
    assert take("a") > 0, "client a was counted after b"
    assert take("b") == 0, "client b was evicted"
    assert len(quotas._rates) == 2


def test_setting_the_same_quotas_changes_nothing() -> None:
    quotas, entity = ClientQuotas(), QuotaEntity.of([("user", "alice")])
    given: list[dict[str, float]] = [{}, {PRODUCER_BYTE_RATE: 5.0}, {PRODUCER_BYTE_RATE: 5.0}, {}]
    assert [quotas.set(entity, each) for each in given] == [False, True, False, True]
