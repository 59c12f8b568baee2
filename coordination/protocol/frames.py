"""Packets (decision): an `int` length and a payload, and the handshake of a connection.

Shared by server and client. The caller's `max_frame_bytes` bounds lengths; ZooKeeper's limit for
requests is `MAX_REQUEST_BYTES`.
"""

import struct
from typing import Any, Final, NamedTuple

from coordination.errors import PacketLengthError
from coordination.protocol import jute
from coordination.protocol.messages import (
    STATE_SYNC_CONNECTED,
    XID_NOTIFICATION,
    ConnectRequest,
    ConnectResponse,
    EventType,
)

MAX_REQUEST_BYTES: Final = 0xFFFFF
MAX_HANDSHAKE_BYTES: Final = 1024
"""Limit of the first frame, as a client may not fill memory before its handshake of 45 bytes."""
_LENGTH = struct.Struct(">i")
_REPLY = struct.Struct(">iiqi")
_REQUEST = struct.Struct(">iii")
_EVENT = struct.Struct(">iiqiii")
REQUEST_HEADER_BYTES: Final = 8
REPLY_HEADER_BYTES: Final = 16


class Handshake(NamedTuple):
    """A ConnectRequest or ConnectResponse; `read_only` is None if the packet lacks it."""

    record: ConnectRequest | ConnectResponse
    read_only: bool | None


class FrameSplitter:
    """Splits a byte stream into payloads; buffers at most one incomplete frame.

    It allocates memory for received bytes only, never for an announced length. Its time is
    proportional to the received bytes, even for tiny pieces. `max_first_bytes` limits the first
    frame.
    """

    def __init__(self, max_frame_bytes: int, *, max_first_bytes: int | None = None) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._limit = max_frame_bytes if max_first_bytes is None else max_first_bytes
        self._rest = bytearray()
        # Size of `_rest` at which the frame, or its length, is complete.
        self._wanted = 0

    @property
    def buffered_bytes(self) -> int:
        """Number of received bytes of the incomplete frame."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads completed by `data`.

        Raises:
            PacketLengthError: a length is negative or above the limit; close the connection.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return []
            data, self._rest = bytes(self._rest), bytearray()
        frames, position, size, wanted = [], 0, len(data), _LENGTH.size
        unpack = _LENGTH.unpack_from
        while size - position >= 4:
            length = unpack(data, position)[0]
            if not 0 <= length <= self._limit:
                head = data[position + 4 : position + 8]
                raise PacketLengthError(length, self._limit, head)
            end = position + 4 + length
            if end > size:
                wanted = end - position
                break
            frames.append(data[position + 4 : end])
            position = end
            self._limit = self._max_frame_bytes
        if position < size:
            self._rest, self._wanted = bytearray(memoryview(data)[position:]), wanted
        return frames


def frame(payload: bytes) -> bytes:
    """Return `payload` prefixed with its length."""
    return _LENGTH.pack(len(payload)) + payload


def encode_request(xid: int, op: int, body: bytes = b"") -> bytes:
    """Return a complete request packet."""
    return _REQUEST.pack(REQUEST_HEADER_BYTES + len(body), xid, op) + body


def encode_reply(xid: int, zxid: int, err: int, body: bytes = b"") -> bytes:
    """Return a complete reply packet."""
    return _REPLY.pack(REPLY_HEADER_BYTES + len(body), xid, zxid, err) + body


def encode_event(event: EventType, path: str) -> bytes:
    """Return a complete notification packet, with zxid -1 as in ZooKeeper 3.8."""
    name = path.encode()
    return (
        _EVENT.pack(
            REPLY_HEADER_BYTES + 12 + len(name),
            XID_NOTIFICATION,
            -1,
            0,
            event,
            STATE_SYNC_CONNECTED,
        )
        + _LENGTH.pack(len(name))
        + name
    )


def decode_handshake(kind: type[Any], payload: bytes) -> Handshake:
    """Decode a ConnectRequest or ConnectResponse, with or without its trailing flag.

    Bytes after the flag are ignored, as in ZooKeeper.

    Raises:
        JuteError: it is malformed.
    """
    record, position = jute.decode(kind, payload)
    flag = bool(payload[position]) if position < len(payload) else None
    return Handshake(record, flag)


def encode_handshake(handshake: Handshake) -> bytes:
    """Return the complete packet of a ConnectRequest or ConnectResponse."""
    flag = b"" if handshake.read_only is None else bytes([handshake.read_only])
    return frame(jute.encode(handshake.record) + flag)
