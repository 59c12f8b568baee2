"""Verification of control requests against the znodes: `clusterstate.control_claim`."""

import pytest

from clusterstate.control_claim import Claim, Evidence, is_ahead, read_evidence, refuse
from clusterstate.znodes import paths
from clusterstate.znodes.controller_node import encode_controller, encode_controller_epoch
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from tests.plans.driver import Driver, empty_cluster

B1, B2 = BrokerId(1), BrokerId(2)
NODES = Evidence(controller_id=B2, controller_epoch=7, broker_epoch=50, hosts=("h",))


def evidence(driver: Driver) -> Evidence:
    return driver.run(read_evidence(B1))


def test_evidence_holds_the_controller_and_the_broker_epoch() -> None:
    driver = empty_cluster(1, 2)
    driver.coordinator.put(paths.CONTROLLER_EPOCH, encode_controller_epoch(7))
    driver.coordinator.put(paths.CONTROLLER, encode_controller(B2, 0))
    czxid = driver.coordinator.nodes[paths.broker(B1)].czxid
    assert evidence(driver) == Evidence(B2, 7, czxid, ("h",))


@pytest.mark.parametrize("damage", [None, b"{oops"])
def test_missing_or_malformed_znodes_give_no_evidence(damage: bytes | None) -> None:
    driver = empty_cluster()
    for path in (paths.CONTROLLER_EPOCH, paths.CONTROLLER):
        driver.coordinator.put(path, damage)
    if damage is None:
        driver.coordinator.remove(paths.CONTROLLER_EPOCH)
        driver.coordinator.remove(paths.CONTROLLER)
    assert evidence(driver) == Evidence(None, -1, -1, ())
    driver.coordinator.put(paths.CONTROLLER, encode_controller(B2, 0))
    assert evidence(driver).hosts == ()
    driver.coordinator.put(paths.broker(B2), b"{oops")
    assert evidence(driver).hosts == ()


@pytest.mark.parametrize(
    ("claim", "code", "may_be_early"),
    [
        pytest.param(Claim(2, 7, 50), None, False, id="valid"),
        pytest.param(Claim(2, 9, -1), ErrorCode.STALE_BROKER_EPOCH, False, id="no broker epoch"),
        pytest.param(Claim(3, 7, 50), ErrorCode.STALE_CONTROLLER_EPOCH, False, id="another"),
        pytest.param(Claim(2, 6, 50), ErrorCode.STALE_CONTROLLER_EPOCH, False, id="former"),
        pytest.param(Claim(2, 2**31 - 1, 50), ErrorCode.STALE_CONTROLLER_EPOCH, True, id="next"),
        pytest.param(
            Claim(2, 7, 49), ErrorCode.STALE_BROKER_EPOCH, False, id="earlier incarnation"
        ),
        pytest.param(Claim(2, 7, 51), ErrorCode.STALE_BROKER_EPOCH, True, id="next incarnation"),
    ],
)
def test_a_claim_is_valid_stale_or_ahead(
    claim: Claim, code: ErrorCode | None, may_be_early: bool
) -> None:
    assert refuse(claim, NODES) is code
    assert is_ahead(claim, NODES) is may_be_early


def test_the_last_controller_is_accepted_while_there_is_none() -> None:
    assert refuse(Claim(2, 7, 50), NODES._replace(controller_id=None)) is None
