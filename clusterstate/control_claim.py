"""Verification of control requests against the coordinator's znodes (decision).

Any client that can connect to a broker can claim to be the controller of any epoch. A broker
compares an unverified claim with the znodes: with the controller, the controller epoch, and its own
registration. The broker epoch of a registration is never sent to clients.
"""

from typing import Final, NamedTuple

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import Node, Plan, read
from clusterstate.znodes import paths
from clusterstate.znodes.controller_node import decode_controller, decode_controller_epoch
from clusterstate.znodes.registration import decode_registration
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId

NO_EPOCH: Final = -1


class Claim(NamedTuple):
    """Sender named by a request, and the broker epoch that the request addresses."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class Evidence(NamedTuple):
    """Contents of the znodes; None or -1 for a znode that is missing or malformed.

    `hosts` are the hosts of the endpoints that the controller registered as a broker.
    """

    controller_id: BrokerId | None
    controller_epoch: int
    broker_epoch: int
    hosts: tuple[str, ...]


def read_evidence(broker_id: BrokerId) -> Plan[Evidence]:
    """Read the evidence for claims that address broker `broker_id`."""
    epoch, holder, own = yield from read(
        (paths.CONTROLLER_EPOCH, paths.CONTROLLER, paths.broker(broker_id))
    )
    controller_id = _controller_id(holder)
    hosts: tuple[str, ...] = ()
    if controller_id is not None:
        [registration] = yield from read((paths.broker(controller_id),))
        hosts = _hosts(controller_id, registration)
    return Evidence(
        controller_id=controller_id,
        controller_epoch=_epoch(epoch),
        broker_epoch=NO_EPOCH if own is None else own.czxid,
        hosts=hosts,
    )


def refuse(claim: Claim, evidence: Evidence) -> ErrorCode | None:
    """Return the error that refuses a claim; None if the claim holds.

    Controllers of Kafka 2.4 and newer send broker epochs, so a claim without one is refused. While
    `/controller` does not exist, the last controller may still send requests.
    """
    if claim.broker_epoch == NO_EPOCH or claim.broker_epoch != evidence.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if claim.controller_epoch != evidence.controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if evidence.controller_id not in (None, claim.controller_id):
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return None


def is_ahead(claim: Claim, evidence: Evidence) -> bool:
    """Whether our view of the znodes may lag behind the claim.

    Our server of the ensemble may lag, or our own registration may not be visible yet.
    """
    return claim.broker_epoch != NO_EPOCH and (
        claim.controller_epoch > evidence.controller_epoch
        or claim.broker_epoch > evidence.broker_epoch
    )


def _controller_id(node: Node | None) -> BrokerId | None:
    try:
        return None if node is None else decode_controller(node.data)
    except MalformedZnodeError:
        return None


def _epoch(node: Node | None) -> int:
    try:
        return NO_EPOCH if node is None else decode_controller_epoch(node.data)
    except MalformedZnodeError:
        return NO_EPOCH


def _hosts(broker_id: BrokerId, node: Node | None) -> tuple[str, ...]:
    try:
        endpoints = () if node is None else decode_registration(broker_id, node.data).endpoints
    except MalformedZnodeError:
        return ()
    return tuple(dict.fromkeys(endpoint.host for endpoint in endpoints))
