"""Operations of a multi or multiRead (decision), by name.

await client.multi([ops.check("/controller_epoch", 3), ops.set_data("/a", b"1", 0)])
"""

from collections.abc import Sequence

from coordination.protocol.messages import (
    OPEN_ACL,
    Acl,
    CheckRequest,
    CreateFlag,
    CreateRequest,
    DeleteRequest,
    OpCode,
    ReadRequest,
    SetDataRequest,
)
from coordination.protocol.multi import Op


def create(
    path: str,
    data: bytes | None = b"",
    *,
    acl: Sequence[Acl] = OPEN_ACL,
    ephemeral: bool = False,
    sequential: bool = False,
) -> Op:
    """Create a node."""
    flags = _create_flags(ephemeral, sequential)
    return Op(OpCode.CREATE, CreateRequest(path, data, acl, flags))


def delete(path: str, version: int = -1) -> Op:
    """Delete a node."""
    return Op(OpCode.DELETE, DeleteRequest(path, version))


def set_data(path: str, data: bytes | None, version: int = -1) -> Op:
    """Replace the data of a node."""
    return Op(OpCode.SET_DATA, SetDataRequest(path, data, version))


def check(path: str, version: int) -> Op:
    """Fail the whole multi unless the node has `version`."""
    return Op(OpCode.CHECK, CheckRequest(path, version))


def get_data(path: str) -> Op:
    """Read a node, in a multiRead."""
    return Op(OpCode.GET_DATA, ReadRequest(path, False))


def get_children(path: str) -> Op:
    """List a node's children, in a multiRead."""
    return Op(OpCode.GET_CHILDREN, ReadRequest(path, False))


def _create_flags(ephemeral: bool, sequential: bool) -> CreateFlag:
    if ephemeral:
        return CreateFlag.EPHEMERAL_SEQUENTIAL if sequential else CreateFlag.EPHEMERAL
    return CreateFlag.PERSISTENT_SEQUENTIAL if sequential else CreateFlag.PERSISTENT
