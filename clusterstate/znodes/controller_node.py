"""`/controller` and `/controller_epoch`: the current controller and its epoch (decision).

`/controller_epoch` is created with 0, so the first controller writes 1.
"""

from typing import Final

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.json_object import JsonObject, encode_json
from kafkawire.ids import BrokerId

INITIAL_EPOCH: Final = 0
_NO_KRAFT: Final = -1


def encode_controller(broker_id: BrokerId, timestamp_ms: int) -> bytes:
    """Return the data of `/controller`, version 2."""
    return encode_json(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": _NO_KRAFT,
        }
    )


def decode_controller(data: bytes | None) -> BrokerId:
    """Return the broker id of the controller, from version 1 or 2.

    Raises:
        MalformedZnodeError: it holds no broker id.
    """
    return BrokerId(JsonObject.decode(data).integer("brokerid"))


def encode_controller_epoch(epoch: int) -> bytes:
    """Return the data of `/controller_epoch`: decimal text."""
    return b"%d" % epoch


def decode_controller_epoch(data: bytes | None) -> int:
    """Return the epoch.

    Raises:
        MalformedZnodeError: not a number.
    """
    try:
        return int(data or b"")
    except ValueError as error:
        raise MalformedZnodeError(f"not a controller epoch: {data!r}") from error
