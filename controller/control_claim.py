"""Whether a request comes from the controller of now (decision): what the coordinator's nodes say.

Anybody who reaches a broker can claim to be the controller of any epoch. A claim that a broker has
not met before is compared with the nodes: with the epoch and the holder of the controllership, and
with the registration of the broker that is addressed, whose epoch is not told to clients.
"""

from typing import Final, NamedTuple

from controller.effects import Node, Plan, read
from controller.errors import MalformedZnodeError
from controller.znodes import paths
from controller.znodes.controller_node import decode_controller, decode_controller_epoch
from controller.znodes.registration import decode_registration
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId

NO_EPOCH: Final = -1


class Claim(NamedTuple):
    """The sender that a request names, and the broker epoch for which it was made."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class Evidence(NamedTuple):
    """The contents of the nodes; None or -1 for a node that is missing or cannot be read.

    `hosts` are where the controller is reached by those who know it as a broker.
    """

    controller_id: BrokerId | None
    controller_epoch: int
    broker_epoch: int
    hosts: tuple[str, ...]


def read_evidence(broker_id: BrokerId) -> Plan[Evidence]:
    """Read what is to be compared with claims that address broker `broker_id`."""
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
    """Return why a claim is not true; None if it is.

    All controllers that a cluster of Kafka 2.4 or newer has know the epochs of brokers. While
    `/controller` is gone its last holder may still speak.
    """
    if claim.broker_epoch == NO_EPOCH or claim.broker_epoch != evidence.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if claim.controller_epoch != evidence.controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if evidence.controller_id not in (None, claim.controller_id):
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return None


def is_ahead(claim: Claim, evidence: Evidence) -> bool:
    """Whether the nodes may only be late: our server of the ensemble, or our own registration."""
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
