"""The supported records of ZooKeeper's protocol, each declared once (decision).

Owns the operation codes and the records of each operation. Field names are the protocol's, in snake
case.

Source: ZooKeeper 3.8 `zookeeper.jute`.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, Final, NamedTuple

from coordination.protocol.jute import (
    STRING,
    Bool,
    Buffer,
    Int,
    Long,
    NullableUString,
    UString,
    codec_of,
    record,
    vector,
)


class OpCode(IntEnum):
    """Operation of a request."""

    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11
    ERROR = -1


class EventType(IntEnum):
    """Kind of change in a watch event."""

    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4


class AddWatchMode(IntEnum):
    """Mode of a watch set by `addWatch`."""

    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


class WatcherType(IntEnum):
    """Kind of watches for `checkWatches` and `removeWatches`."""

    CHILDREN = 1
    DATA = 2
    ANY = 3


class CreateFlag(IntEnum):
    """Value of the `flags` of a create request."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    TTL = 5
    TTL_SEQUENTIAL = 6


DEFAULT_PORT: Final = 2181
LINGER_PROTOCOL: Final = 1
"""Protocol version of a client whose session may end soon after its connection is lost."""
XID_NOTIFICATION: Final = -1
XID_PING: Final = -2
XID_AUTH: Final = -4
XID_SET_WATCHES: Final = -8
STATE_SYNC_CONNECTED: Final = 3
MAX_WATCHED_PATHS: Final = 10_000
"""Limit per setWatches. Clients send at most 128 KiB of paths in one, usually far fewer paths."""
PASSWORD_BYTES: Final = 16
NO_PASSWORD: Final = bytes(PASSWORD_BYTES)


@record
class Acl(NamedTuple):
    """Permissions (`perms`, a set of bits) of one identity (`scheme`, `id`)."""

    perms: Int
    scheme: NullableUString
    id: NullableUString


@record
class Stat(NamedTuple):
    """Metadata of a node, as clients see it."""

    czxid: Long
    mzxid: Long
    ctime: Long
    mtime: Long
    version: Int
    cversion: Int
    aversion: Int
    ephemeral_owner: Long
    data_length: Int
    num_children: Int
    pzxid: Long


Acls = Annotated[Sequence[Acl], vector(codec_of(Acl), smallest_item_bytes=12, max_count=1_000)]
UStrings = Annotated[Sequence[str], vector(STRING)]
WatchedPaths = Annotated[Sequence[str], vector(STRING, max_count=MAX_WATCHED_PATHS)]


@record
class ConnectRequest(NamedTuple):
    """First packet of a connection, without its optional flag, see `frames.Handshake`."""

    protocol_version: Int
    last_zxid_seen: Long
    time_out: Int
    session_id: Long
    passwd: Buffer


@record
class ConnectResponse(NamedTuple):
    """Response to a ConnectRequest; `session_id` 0 means that the session is refused."""

    protocol_version: Int
    time_out: Int
    session_id: Long
    passwd: Buffer


@record
class RequestHeader(NamedTuple):
    """Header before every request body."""

    xid: Int
    type: Int


@record
class ReplyHeader(NamedTuple):
    """Header before every reply body; there is a body only if `err` is 0."""

    xid: Int
    zxid: Long
    err: Int


@record
class WatcherEvent(NamedTuple):
    """Body of a notification."""

    type: Int
    state: Int
    path: UString


@record
class CreateRequest(NamedTuple):
    """create, create2 and createContainer."""

    path: UString
    data: Buffer
    acl: Acls
    flags: Int


@record
class CreateTtlRequest(NamedTuple):
    """createTTL; `ttl` in milliseconds."""

    path: UString
    data: Buffer
    acl: Acls
    flags: Int
    ttl: Long


@record
class DeleteRequest(NamedTuple):
    """delete; version -1 means any."""

    path: UString
    version: Int


@record
class ReadRequest(NamedTuple):
    """exists, getData, getChildren and getChildren2."""

    path: UString
    watch: Bool


@record
class SetDataRequest(NamedTuple):
    """setData; version -1 means any."""

    path: UString
    data: Buffer
    version: Int


@record
class PathRequest(NamedTuple):
    """getACL, sync, deleteContainer and getAllChildrenNumber."""

    path: UString


@record
class SetAclRequest(NamedTuple):
    """setACL; `version` is compared with the ACL version."""

    path: UString
    acl: Acls
    version: Int


@record
class CheckRequest(NamedTuple):
    """check, valid in a multi only."""

    path: UString
    version: Int


@record
class WatchesRequest(NamedTuple):
    """checkWatches and removeWatches."""

    path: UString
    type: Int


@record
class AddWatchRequest(NamedTuple):
    """addWatch."""

    path: UString
    mode: Int


@record
class AuthRequest(NamedTuple):
    """auth."""

    type: Int
    scheme: NullableUString
    auth: Buffer


@record
class SaslToken(NamedTuple):
    """sasl, in both directions."""

    token: Buffer


@record
class SetWatchesRequest(NamedTuple):
    """setWatches: the watches that a client had on its lost connection."""

    relative_zxid: Long
    data_watches: WatchedPaths
    exist_watches: WatchedPaths
    child_watches: WatchedPaths


@record
class SetWatches2Request(NamedTuple):
    """setWatches2: the same, with persistent watches."""

    relative_zxid: Long
    data_watches: WatchedPaths
    exist_watches: WatchedPaths
    child_watches: WatchedPaths
    persistent_watches: WatchedPaths
    persistent_recursive_watches: WatchedPaths


@record
class GetEphemeralsRequest(NamedTuple):
    """getEphemerals, for the client's own session."""

    prefix_path: NullableUString


@record
class PathResponse(NamedTuple):
    """create and sync."""

    path: UString


@record
class Create2Response(NamedTuple):
    """create2, createContainer and createTTL."""

    path: UString
    stat: Stat


@record
class StatResponse(NamedTuple):
    """exists, setData and setACL."""

    stat: Stat


@record
class GetDataResponse(NamedTuple):
    """getData."""

    data: Buffer
    stat: Stat


@record
class GetAclResponse(NamedTuple):
    """getACL."""

    acl: Acls
    stat: Stat


@record
class ChildrenResponse(NamedTuple):
    """getChildren; also getEphemerals."""

    children: UStrings


@record
class Children2Response(NamedTuple):
    """getChildren2."""

    children: UStrings
    stat: Stat


@record
class CountResponse(NamedTuple):
    """getAllChildrenNumber."""

    total_number: Int


@record
class ErrorResponse(NamedTuple):
    """addWatch; also a failed operation of a multi."""

    err: Int


@record
class ClientInfo(NamedTuple):
    """One identity of a connection."""

    auth_scheme: UString
    user: UString


@record
class WhoAmIResponse(NamedTuple):
    """whoAmI."""

    client_info: Annotated[
        Sequence[ClientInfo], vector(codec_of(ClientInfo), smallest_item_bytes=8)
    ]


@record
class ReconfigRequest(NamedTuple):
    """reconfig, supported only to refuse it."""

    joining_servers: NullableUString
    leaving_servers: NullableUString
    new_members: NullableUString
    cur_config_id: Long


class Shape(NamedTuple):
    """Records of an operation; None if it has no body."""

    request: type[tuple[Any, ...]] | None
    response: type[tuple[Any, ...]] | None


# Without multi and multiRead, whose bodies are sequences, see `coordination.protocol.multi`.
SHAPES: Final[dict[int, Shape]] = {
    OpCode.CREATE: Shape(CreateRequest, PathResponse),
    OpCode.CREATE2: Shape(CreateRequest, Create2Response),
    OpCode.CREATE_CONTAINER: Shape(CreateRequest, Create2Response),
    OpCode.CREATE_TTL: Shape(CreateTtlRequest, Create2Response),
    OpCode.DELETE: Shape(DeleteRequest, None),
    OpCode.DELETE_CONTAINER: Shape(PathRequest, None),
    OpCode.EXISTS: Shape(ReadRequest, StatResponse),
    OpCode.GET_DATA: Shape(ReadRequest, GetDataResponse),
    OpCode.SET_DATA: Shape(SetDataRequest, StatResponse),
    OpCode.GET_ACL: Shape(PathRequest, GetAclResponse),
    OpCode.SET_ACL: Shape(SetAclRequest, StatResponse),
    OpCode.GET_CHILDREN: Shape(ReadRequest, ChildrenResponse),
    OpCode.GET_CHILDREN2: Shape(ReadRequest, Children2Response),
    OpCode.SYNC: Shape(PathRequest, PathResponse),
    OpCode.PING: Shape(None, None),
    OpCode.CHECK: Shape(CheckRequest, None),
    OpCode.CHECK_WATCHES: Shape(WatchesRequest, None),
    OpCode.REMOVE_WATCHES: Shape(WatchesRequest, None),
    OpCode.AUTH: Shape(AuthRequest, None),
    OpCode.SASL: Shape(SaslToken, SaslToken),
    OpCode.SET_WATCHES: Shape(SetWatchesRequest, None),
    OpCode.SET_WATCHES2: Shape(SetWatches2Request, None),
    OpCode.GET_EPHEMERALS: Shape(GetEphemeralsRequest, ChildrenResponse),
    OpCode.GET_ALL_CHILDREN_NUMBER: Shape(PathRequest, CountResponse),
    OpCode.ADD_WATCH: Shape(AddWatchRequest, ErrorResponse),
    OpCode.WHO_AM_I: Shape(None, WhoAmIResponse),
    OpCode.CLOSE_SESSION: Shape(None, None),
    OpCode.RECONFIG: Shape(ReconfigRequest, GetDataResponse),
}

OPEN_ACL: Final[tuple[Acl, ...]] = (Acl(31, "world", "anyone"),)
READ_ONLY_ACL: Final[tuple[Acl, ...]] = (Acl(1, "world", "anyone"),)
