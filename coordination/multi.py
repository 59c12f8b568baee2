"""The bodies of multi and multiRead (decision): a sequence of headed operations or results.

A request is `{MultiHeader, body}*` and an end header; a response is the same with results.
A failed multi answers every operation with an error result, and only then.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from coordination import jute
from coordination.errors import JuteError
from coordination.messages import SHAPES, ErrorResponse, OpCode, PathResponse

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


class Op(NamedTuple):
    """One operation of a multi or multiRead."""

    type: OpCode
    request: tuple[Any, ...]


class Result(NamedTuple):
    """One result; `type` is ERROR and `err` its code when the operation failed."""

    type: OpCode
    response: tuple[Any, ...] | None
    err: int = 0


def decode_ops(data: bytes, position: int = 0) -> list[Op]:
    """Read the operations of a request.

    Raises:
        JuteError: malformed, an operation that may not stand in a multi, or reads and
            writes mixed.
    """
    ops: list[Op] = []
    while True:
        kind, done, position = _header(data, position)
        if done:
            break
        request, position = jute.decode(_request_type(kind), data, position)
        ops.append(Op(OpCode(kind), request))
    kinds = {op.type for op in ops}
    if not (kinds <= _WRITES or kinds <= _READS):
        raise JuteError("a multi holds either reads or writes")
    return ops


def encode_ops(ops: Sequence[Op]) -> bytes:
    """Return the body of a request."""
    out = bytearray()
    for op in ops:
        out += _HEADER.pack(op.type, False, -1)
        out += jute.encode(op.request)
    return bytes(out + _END)


def decode_results(data: bytes, position: int = 0) -> list[Result]:
    """Read the results of a response.

    Raises:
        JuteError: malformed.
    """
    results: list[Result] = []
    while True:
        kind, done, position = _header(data, position)
        if done:
            return results
        response_type = _response_type(kind)
        if response_type is None:
            results.append(Result(OpCode(kind), None))
            continue
        response, position = jute.decode(response_type, data, position)
        err = response.err if isinstance(response, ErrorResponse) else 0
        results.append(Result(OpCode(kind), response, err))


def encode_results(results: Sequence[Result]) -> bytes:
    """Return the body of a response."""
    out = bytearray()
    for result in results:
        out += _HEADER.pack(result.type, False, result.err)
        if result.response is not None:
            out += jute.encode(result.response)
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


def _request_type(kind: int) -> type[tuple[Any, ...]]:
    request_type = SHAPES[kind].request if kind in _WRITES or kind in _READS else None
    if request_type is None:
        raise JuteError(f"operation {kind} cannot stand in a multi")
    return request_type


def _response_type(kind: int) -> type[tuple[Any, ...]] | None:
    if kind == OpCode.ERROR:
        return ErrorResponse
    if kind == OpCode.CREATE:
        return PathResponse
    if kind in _WRITES or kind in _READS:
        return SHAPES[kind].response
    raise JuteError(f"result {kind} cannot stand in a multi")
