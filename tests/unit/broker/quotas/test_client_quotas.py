"""Selection of the quota for a request, and its accounting: `broker.quotas.client_quotas`."""

import pytest

from broker.quotas import client_quotas
from broker.quotas.client_quotas import MAX_SHARED_PAUSE_MS, ClientQuotas
from broker.quotas.entity import PRODUCER_BYTE_RATE, QuotaEntity
from broker.quotas.rate import WINDOW_COUNT, WINDOW_MS
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


def take(
    quotas: ClientQuotas, user: str, client: str, amount: int = 1, now_ms: int = NOW_MS
) -> int:
    return quotas.take(PRODUCER_BYTE_RATE, user, client, amount, now_ms)


def test_a_flood_of_client_ids_resets_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_RATES", 3)
    quotas = ClientQuotas()
    quota(quotas, 100, ("user", "alice"))
    quota(quotas, 100, ("client-id", "etl"))
    quota(quotas, 100, ("client-id", None))
    quota(quotas, 100, ("user", "mallory"), ("client-id", None))
    assert take(quotas, "alice", "a", 2000) > 0
    for number in range(10):
        take(quotas, "mallory", f"m{number}", 0)
    assert take(quotas, "alice", "b") > 0, "the rate of the user is kept"
    assert len(quotas._rates) == 4, "alice, two client ids, and the rate that the others share"
    assert take(quotas, "mallory", "new", 2000) > 0
    assert take(quotas, "mallory", "newer") > 0, "it shares the rate of the user's other ones"
    assert take(quotas, "bob", "newer") == 0, "another user has another one"
    assert take(quotas, "bob", "etl") == 0, "a client with a quota of its own has its own rate"
    assert take(quotas, "bob", "etl", 2000) > 0
    assert take(quotas, "bob", "newer") == 0


def test_the_excess_of_many_new_client_ids_delays_another_one_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_quotas, "MAX_RATES", 1)
    quotas = ClientQuotas()
    quota(quotas, 100, ("client-id", None))
    take(quotas, "mallory", "first")
    assert take(quotas, "mallory", "second", 10**9) == MAX_SHARED_PAUSE_MS
    assert take(quotas, "mallory", "third") == MAX_SHARED_PAUSE_MS
    assert take(quotas, "bob", "first of his") == 0, "the rate of another user"
    assert take(quotas, "mallory", "first", 10**9) > MAX_SHARED_PAUSE_MS, "its own excess"


def test_idle_rates_make_room_for_new_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_RATES", 2)
    quotas = ClientQuotas()
    quota(quotas, 100, ("client-id", None))
    for number in range(10):
        take(quotas, ANONYMOUS, f"c{number}", 2000)
    later_ms = NOW_MS + WINDOW_COUNT * WINDOW_MS
    assert take(quotas, ANONYMOUS, "a", 2000, later_ms) > 0
    assert take(quotas, ANONYMOUS, "b", 1, later_ms) == 0
    assert [each.client[1] for each in quotas.uses(10)] == ["b", "a"]


def test_long_client_ids_are_counted_apart_but_not_kept() -> None:
    quotas, long = ClientQuotas(), "c" * 32_000
    quota(quotas, 100, ("client-id", None))
    quota(quotas, 7, ("client-id", long))
    assert quotas.limit(PRODUCER_BYTE_RATE, ANONYMOUS, long) == 7
    assert take(quotas, ANONYMOUS, long + "a", 2000) > 0
    assert take(quotas, ANONYMOUS, long + "b") == 0
    assert take(quotas, ANONYMOUS, long + "a") > 0
    assert all(len(each.client[1]) < 200 for each in quotas.uses(2))


def test_setting_the_same_quotas_changes_nothing() -> None:
    quotas, entity = ClientQuotas(), QuotaEntity.of([("user", "alice")])
    given: list[dict[str, float]] = [{}, {PRODUCER_BYTE_RATE: 5.0}, {PRODUCER_BYTE_RATE: 5.0}, {}]
    assert [quotas.set(entity, each) for each in given] == [False, True, False, True]
