"""Operations of a multi, by name: `coordination.client.ops`."""

import pytest

from coordination.client import ops
from coordination.protocol.messages import (
    OPEN_ACL,
    CheckRequest,
    CreateFlag,
    CreateRequest,
    DeleteRequest,
    OpCode,
    ReadRequest,
    SetDataRequest,
)
from coordination.protocol.multi import Op


@pytest.mark.parametrize(
    ("made", "code", "request_"),
    [
        (ops.create("/a"), OpCode.CREATE, CreateRequest("/a", b"", OPEN_ACL, 0)),
        (
            ops.create("/a", b"1", ephemeral=True, sequential=True),
            OpCode.CREATE,
            CreateRequest("/a", b"1", OPEN_ACL, CreateFlag.EPHEMERAL_SEQUENTIAL),
        ),
        (ops.delete("/a"), OpCode.DELETE, DeleteRequest("/a", -1)),
        (ops.set_data("/a", None, 3), OpCode.SET_DATA, SetDataRequest("/a", None, 3)),
        (ops.check("/a", 4), OpCode.CHECK, CheckRequest("/a", 4)),
        (ops.get_data("/a"), OpCode.GET_DATA, ReadRequest("/a", False)),
        (ops.get_children("/a"), OpCode.GET_CHILDREN, ReadRequest("/a", False)),
    ],
    ids=lambda value: value.name if isinstance(value, OpCode) else "",
)
def test_an_operation_has_its_request(made: Op, code: OpCode, request_: object) -> None:
    assert made == Op(code, request_)  # type: ignore[arg-type]
