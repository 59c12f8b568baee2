"""Bodies of multi and multiRead (decision): sequences of operations or results, with headers.

A request is `{MultiHeader, body}*` and an end header; a response is the same with results. A failed
multi has an error result for every operation; a successful one has none.
"""

import struct
from collections.abc import Sequence, Set
from typing import Any, Final, NamedTuple, NoReturn

from coordination.errors import JuteError
from coordination.protocol import jute
from coordination.protocol.messages import (
    SHAPES,
    CreateRequest,
    CreateTtlRequest,
    ErrorResponse,
    OpCode,
    PathResponse,
)

MAX_OPS: Final = 2_000
"""Limit per multi or multiRead, because all of them run before the next request."""
MAX_ACL_ENTRIES: Final = 2 * MAX_OPS
"""Limit of the ACLs in one multi together. Each entry is decoded, checked and logged, which for
45,000 entries in 1 MiB stops the loop for 70 ms. Clients use one or two entries per node."""
_HEADER = struct.Struct(">i?i")
_END: Final = _HEADER.pack(-1, True, -1)
_WRITES: Final = frozenset(
    {
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.SET_DATA,
        OpCode.CHECK,
    }
)
_READS: Final = frozenset({OpCode.GET_DATA, OpCode.GET_CHILDREN})
# Bound once, because member lookup in an enum runs Python code.
_MULTI_READ: Final = OpCode.MULTI_READ


class Op(NamedTuple):
    """One operation of a multi or multiRead."""

    type: OpCode
    request: tuple[Any, ...]


class Result(NamedTuple):
    """Result of one operation; if it failed, `type` is ERROR and `err` its code."""

    type: OpCode
    response: tuple[Any, ...] | None
    err: int = 0


def decode_ops(op: int, data: bytes, position: int = 0) -> list[Op]:
    """Decode the operations of a request `op`: writes of a multi, or reads of a multiRead.

    Raises:
        JuteError: the data is malformed, has another operation, or has more than `MAX_OPS`
            operations or `MAX_ACL_ENTRIES` entries.
    """
    requests = _READ_REQUESTS if op == _MULTI_READ else _WRITE_REQUESTS
    ops: list[Op] = []
    acl_entries = 0
    while True:
        kind, done, position = _header(data, position)
        if done:
            return ops
        if len(ops) == MAX_OPS:
            raise JuteError(f"more than {MAX_OPS} operations in one request")
        each, request_type = requests.get(kind) or _refuse(kind)
        request, position = jute.decode(request_type, data, position)
        if isinstance(request, CreateRequest | CreateTtlRequest):
            acl_entries += len(request.acl)
            if acl_entries > MAX_ACL_ENTRIES:
                raise JuteError(f"more than {MAX_ACL_ENTRIES} ACL entries in one request")
        ops.append(Op(each, request))


def encode_ops(ops: Sequence[Op]) -> bytes:
    """Return the body of a request."""
    out = bytearray()
    for op in ops:
        out += _HEADER.pack(op.type, False, -1)
        jute.encode_into(out, op.request)
    return bytes(out + _END)


def decode_results(data: bytes, position: int = 0, *, max_count: int = MAX_OPS) -> list[Result]:
    """Decode the results of a response to at most `max_count` operations.

    Raises:
        JuteError: the data is malformed, or has more results.
    """
    results: list[Result] = []
    while True:
        kind, done, position = _header(data, position)
        if done:
            return results
        if len(results) == max_count:
            raise JuteError(f"more than {max_count} results")
        op, response_type = _RESPONSES.get(kind) or _refuse(kind)
        if response_type is None:
            results.append(Result(op, None))
            continue
        response, position = jute.decode(response_type, data, position)
        err = response.err if isinstance(response, ErrorResponse) else 0
        results.append(Result(op, response, err))


def encode_results(results: Sequence[Result]) -> bytes:
    """Return the body of a response."""
    out = bytearray()
    for result in results:
        out += _HEADER.pack(result.type, False, result.err)
        if result.response is not None:
            jute.encode_into(out, result.response)
    return bytes(out + _END)


def error_result(err: int) -> Result:
    """Return the result of a failed operation."""
    return Result(OpCode.ERROR, ErrorResponse(err), err)


def _header(data: bytes, position: int) -> tuple[int, bool, int]:
    try:
        kind, done, _ = _HEADER.unpack_from(data, position)
    except struct.error as error:
        raise JuteError(f"multi without an end header: {error}") from error
    return kind, done, position + _HEADER.size


def _refuse(kind: int) -> NoReturn:
    raise JuteError(f"operation {kind} is invalid in a multi")


def _requests(ops: Set[OpCode]) -> dict[int, tuple[OpCode, type[tuple[Any, ...]]]]:
    found = {}
    for op in ops:
        request = SHAPES[op].request
        assert request is not None, "every operation of a multi has a body"
        found[int(op)] = (op, request)
    return found


# Keyed by number: looking up an enum member costs more than decoding the record.
_WRITE_REQUESTS: Final = _requests(_WRITES)
_READ_REQUESTS: Final = _requests(_READS)
_RESPONSES: Final[dict[int, tuple[OpCode, type[tuple[Any, ...]] | None]]] = {
    **{int(op): (op, SHAPES[op].response) for op in _WRITES | _READS},
    int(OpCode.ERROR): (OpCode.ERROR, ErrorResponse),
    int(OpCode.CREATE): (OpCode.CREATE, PathResponse),
}
