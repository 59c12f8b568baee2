"""The audit log: `broker.security.audit`."""

import pytest
from structlog.testing import capture_logs

from broker.security import audit as audit_module
from broker.security.audit import MAX_LINES, MAX_NAME, REPEAT_S, Audit
from broker.security.principal import ANONYMOUS, Principal
from kafkawire.acl import Operation, ResourcePattern, ResourceType

BOB = Principal("User", "bob")
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders\nauthorizer.allowed")


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def deny(audit: Audit, resource: ResourcePattern = ORDERS) -> None:
    audit.denied(ANONYMOUS, "h", Operation.WRITE, resource, request="PRODUCE", resource_ref_count=1)


def test_repeated_denials_are_counted_instead_of_logged() -> None:
    clock = Clock()
    audit = Audit(clock, logs_allowed=False)
    with capture_logs() as events:
        for _ in range(5):
            deny(audit)
        clock.now_s += REPEAT_S
        deny(audit)
    assert [event["left_out_count"] for event in events] == [0, 4]
    assert events[0] == {
        "event": "authorizer.denied",
        "log_level": "info",
        "principal": "User:ANONYMOUS",
        "host": "h",
        "operation": "Write",
        "resource": "Topic:LITERAL:orders\nauthorizer.allowed",
        "request": "PRODUCE",
        "resource_ref_count": 1,
        "left_out_count": 0,
    }


def test_memory_of_denials_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MAX_REMEMBERED", 2)
    audit = Audit(Clock(), logs_allowed=False)
    resources = [ResourcePattern(ResourceType.TOPIC, name) for name in "abca"]
    with capture_logs() as events:
        for resource in resources:
            deny(audit, resource)
    assert len(events) == 4
    assert len(audit._denied) == 2


def test_a_principal_that_invents_names_gets_a_limited_number_of_lines() -> None:
    clock = Clock()
    audit = Audit(clock, logs_allowed=False)
    invented = [ResourcePattern(ResourceType.GROUP, str(number)) for number in range(10_000)]
    with capture_logs() as events:
        for resource in invented:
            deny(audit, resource)
        audit.denied(BOB, "h", Operation.READ, ORDERS, request="FETCH", resource_ref_count=1)
        clock.now_s += REPEAT_S
        deny(audit)
    left_out = len(invented) - MAX_LINES
    assert [event["event"] for event in events] == [
        *["authorizer.denied"] * MAX_LINES,
        "authorizer.denials_left_out",
        "authorizer.denied",
        "authorizer.denials_left_out",
        "authorizer.denied",
    ]
    assert [event["left_out_count"] for event in events[MAX_LINES:]] == [1, 0, left_out, 0]
    assert events[-3]["principal"] == "User:bob", "others keep their lines"


def test_number_of_remembered_principals_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MAX_REMEMBERED", 2)
    audit = Audit(Clock(), logs_allowed=False)
    for name in "abc":
        principal = Principal("User", name)
        audit.denied(principal, "h", Operation.READ, ORDERS, request="FETCH", resource_ref_count=1)
    assert len(audit._lines) == 2


def test_long_names_are_cut() -> None:
    audit = Audit(Clock(), logs_allowed=False)
    with capture_logs() as events:
        for end in "ab":
            deny(audit, ResourcePattern(ResourceType.GROUP, "x" * 32_000 + end))
    [event] = events
    assert event["resource"] == "Group:LITERAL:" + "x" * MAX_NAME


def test_allowed_operations_are_at_debug() -> None:
    audit = Audit(Clock(), logs_allowed=True)
    with capture_logs() as events:
        audit.allowed(ANONYMOUS, "h", Operation.READ, ORDERS, request="FETCH", resource_ref_count=2)
    assert [(event["event"], event["log_level"]) for event in events] == [
        ("authorizer.allowed", "debug")
    ]
