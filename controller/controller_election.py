"""Election and abdication of the controller (decision).

One transaction creates `/controller` and increments `/controller_epoch`, guarded by its version.
Two brokers therefore never win the same epoch, and a winner always fences its predecessor.

Source: kafka.zk.KafkaZkClient.registerControllerAndIncrementControllerEpoch of Kafka 3.9.
"""

from dataclasses import dataclass

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import UNREADABLE_VERSION, Check, Create, Delete, SetData, read, write
from clusterstate.znodes import paths
from clusterstate.znodes.controller_node import (
    INITIAL_EPOCH,
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from controller.cluster import Cluster
from controller.effects import Plan
from kafkawire.ids import BrokerId


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """A won controller epoch, and the version of `/controller_epoch` that fences it."""

    epoch: int
    epoch_version: int


def current_controller(known: BrokerId | None) -> Plan[BrokerId | None]:
    """Return the current controller, if any, and watch for a change.

    A malformed znode counts as an unknown controller, with id -1. If this broker may not read the
    znode, the controller is the `known` one.
    """
    [node] = yield from read((paths.CONTROLLER,), watch=True)
    if node is None:
        return None
    if node.version == UNREADABLE_VERSION and known is not None:
        return known
    try:
        return decode_controller(node.data)
    except MalformedZnodeError:
        return BrokerId(-1)


def elect(broker_id: BrokerId, now_ms: int) -> Plan[ControllerEpoch | None]:
    """Run for election; return the won epoch, or None if another broker won."""
    [node] = yield from read((paths.CONTROLLER_EPOCH,))
    if node is None:
        data = encode_controller_epoch(INITIAL_EPOCH)
        yield from write([(Create(paths.CONTROLLER_EPOCH, data),)])
        [node] = yield from read((paths.CONTROLLER_EPOCH,))
    if node is None:
        return None
    epoch = decode_controller_epoch(node.data) + 1
    [outcome] = yield from write(
        [
            (
                Create(paths.CONTROLLER, encode_controller(broker_id, now_ms), ephemeral=True),
                SetData(paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch), node.version),
            )
        ]
    )
    if outcome.refusal is None:
        return ControllerEpoch(epoch, outcome.versions[1])
    return (yield from _won_after_all(broker_id, epoch))


def _won_after_all(broker_id: BrokerId, epoch: int) -> Plan[ControllerEpoch | None]:
    """Return our epoch if the transaction was refused because its first copy had been applied."""
    controller, node = yield from read((paths.CONTROLLER, paths.CONTROLLER_EPOCH))
    if controller is None or node is None:
        return None
    try:
        is_ours = decode_controller(controller.data) == broker_id
    except MalformedZnodeError:
        return None
    is_ours = is_ours and decode_controller_epoch(node.data) == epoch
    return ControllerEpoch(epoch, node.version) if is_ours else None


def clear_own(broker_id: BrokerId) -> Plan[None]:
    """Delete a `/controller` of this broker that was created by an earlier or an ending session.

    Another broker's znode is never touched, because its election changes the checked epoch.
    """
    epoch, controller = yield from read((paths.CONTROLLER_EPOCH, paths.CONTROLLER))
    if epoch is None or controller is None:
        return
    try:
        is_ours = decode_controller(controller.data) == broker_id
    except MalformedZnodeError:
        return
    if is_ours:
        fence = Check(paths.CONTROLLER_EPOCH, epoch.version)
        yield from write([(fence, Delete(paths.CONTROLLER, controller.version))])


def abdicate(cluster: Cluster) -> Plan[None]:
    """Delete `/controller`, unless another controller has been elected since."""
    fence = Check(paths.CONTROLLER_EPOCH, cluster.epoch_version)
    yield from write([(fence, Delete(paths.CONTROLLER))])
