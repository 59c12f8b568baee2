"""Filters in requests for quotas: `broker.quotas.quota_filter`."""

import pytest

from broker.quotas.entity import QuotaEntity
from broker.quotas.quota_filter import ANY, DEFAULT, EXACT, Component, QuotaFilter
from kafkawire.errors import ApiError, ErrorCode

ENTITIES = {
    "user a": QuotaEntity.of([("user", "a")]),
    "all users": QuotaEntity.of([("user", None)]),
    "client c": QuotaEntity.of([("client-id", "c")]),
    "c of a": QuotaEntity.of([("user", "a"), ("client-id", "c")]),
    "ip": QuotaEntity.of([("ip", "10.0.0.1")]),
}


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, set(ENTITIES)),
        ([], True, set()),
        ([Component("user", EXACT, "a")], False, {"user a", "c of a"}),
        ([Component("user", EXACT, "a")], True, {"user a"}),
        ([Component("user", DEFAULT, None)], True, {"all users"}),
        ([Component("user", EXACT, "")], False, set()),
        ([Component("user", ANY, None)], False, {"user a", "all users", "c of a"}),
        ([Component("client-id", ANY, None)], True, {"client c"}),
        ([Component("client-id", ANY, None), Component("user", EXACT, "a")], True, {"c of a"}),
        ([Component("ip", ANY, None)], False, {"ip"}),
    ],
)
def test_filter_accepts_matching_entities(
    components: list[Component], strict: bool, expected: set[str]
) -> None:
    wanted = QuotaFilter(components, is_strict=strict)
    assert {name for name, entity in ENTITIES.items() if wanted.accepts(entity)} == expected


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([Component("user", ANY, None)] * 2, ErrorCode.INVALID_REQUEST),
        ([Component("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([Component("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([Component("ip", ANY, None), Component("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([Component("user", 7, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_filter_is_refused(components: list[Component], code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        QuotaFilter(components, is_strict=False)
    assert caught.value.code is code
