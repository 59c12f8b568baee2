"""Every API without rights, with exactly its right, and for a super user."""

from collections.abc import Iterator, Mapping

import pytest

from broker.handlers.guards.guard_table import GUARDS
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.acl_client import (
    ADMIN_HOST,
    CLIENT_HOST,
    WITH_AUTHORIZER,
    reserve_for_admin,
)
from tests.integration.broker.acl_matrix import (
    CLOSED,
    ROWS,
    Row,
    Stage,
    codes,
    prepare,
    send,
    settle,
    with_rights,
)
from tests.integration.broker.wire import Wire

WITH_SUPER_USER = {**WITH_AUTHORIZER, "super.users": "User:ANONYMOUS"}


def ids(rows: list[Row]) -> list[str]:
    return [each.name for each in rows]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, BrokerProcess]]:
    """A broker that lists rights, and one to which every client is a super user."""
    started = {
        name: BrokerProcess(tmp_path_factory.mktemp(name), overrides)
        for name, overrides in (("listed", WITH_AUTHORIZER), ("super", WITH_SUPER_USER))
    }
    try:
        for broker in started.values():
            broker.wait_for_event(READY_EVENT)
        with Wire(started["listed"].port) as admin:
            reserve_for_admin(admin)
        yield started
        assert [broker.stop() for broker in started.values()] == [0, 0]
    finally:
        for broker in started.values():
            broker.kill()


@pytest.fixture(scope="module")
def stages(brokers: Mapping[str, BrokerProcess]) -> Mapping[str, Stage]:
    """The topics of each client; the coordinator of groups is ready."""
    found: dict[str, Stage] = {}
    for name, broker in brokers.items():
        with Wire(broker.port) as admin:
            found |= prepare(admin, name)
        settle(broker.port, found[name], ADMIN_HOST)
    return found


def test_matrix_names_every_api_with_a_guard() -> None:
    assert {row.key for row in ROWS} >= GUARDS.keys()


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_api_needs_exactly_its_right(
    brokers: Mapping[str, BrokerProcess], stages: Mapping[str, Stage], row: Row
) -> None:
    port, stage = brokers["listed"].port, stages["listed"]
    with Wire(port) as admin:
        with_rights(admin, [])
        refused = send(port, row, stage, CLIENT_HOST)
        assert codes(refused) == row.denied
        if row.is_between_brokers:
            return
        with_rights(admin, row.rights(stage))
        allowed = send(port, row, stage, CLIENT_HOST)
        assert allowed != CLOSED
        # Other resources in the request stay denied.
        assert allowed != refused or not row.denied
    permitted = send(brokers["super"].port, row, stages["super"], CLIENT_HOST)
    assert permitted != CLOSED
    assert codes(permitted) == set()
