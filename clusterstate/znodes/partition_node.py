"""`/brokers/topics/<t>/partitions/<p>/state`: leader and in-sync set (decision).

The version of this znode is the partition epoch. It is written and read in version 1, and has a
`leader_recovery_state` only while the leader recovers.
"""

from typing import Final, cast

from clusterstate.errors import MalformedZnodeError
from clusterstate.leader_and_isr import LeaderAndIsr, LeaderRecoveryState
from clusterstate.replica_assignment import Replicas
from clusterstate.znodes.json_object import JsonObject, encode_json
from kafkawire.ids import BrokerId, LeaderEpoch

VERSION: Final = 1
_RECOVERY_STATES: Final = {int(state): state for state in LeaderRecoveryState}


def encode_partition_state(state: LeaderAndIsr, controller_epoch: int) -> bytes:
    """Return the znode's data as the controller of `controller_epoch` writes it."""
    fields: dict[str, object] = {
        "controller_epoch": controller_epoch,
        "leader": state.leader,
        "version": VERSION,
    }
    if state.recovery_state is not LeaderRecoveryState.RECOVERED:
        fields["leader_recovery_state"] = int(state.recovery_state)
    fields |= {"leader_epoch": state.leader_epoch, "isr": list(state.isr)}
    return encode_json(fields)


def decode_partition_state(data: bytes | None, version: int) -> LeaderAndIsr:
    """Decode the state of a partition; `version` is the version of the znode.

    Raises:
        MalformedZnodeError: not a partition's state.
    """
    fields = JsonObject.decode(data)
    number = fields.integer("leader_recovery_state", default=0)
    recovery_state = _RECOVERY_STATES.get(number)
    if recovery_state is None:
        raise MalformedZnodeError(f"leader recovery state must be 0 or 1, got {number}")
    return LeaderAndIsr(
        leader=BrokerId(fields.integer("leader")),
        leader_epoch=LeaderEpoch(fields.integer("leader_epoch")),
        isr=cast("Replicas", fields.integers("isr")),
        recovery_state=recovery_state,
        partition_epoch=version,
        controller_epoch=fields.integer("controller_epoch"),
    )
