"""Exceptions of the coordinator and its client (decision).

The tree:

    CoordinationError
    ├── OperationError          expected: an operation failed with an `ErrorCode`
    │   ├── NoNodeError, NodeExistsError, BadVersionError, NotEmptyError, NoAuthError,
    │   │   BadArgumentsError, InvalidAclError, NoChildrenForEphemeralsError
    │   ├── MultiError          one operation of a multi failed, so none was applied
    │   ├── SizeLimitError: RequestTooLargeError, ResponseTooLargeError
    │   ├── ConnectionLossError the reply was lost; the operation may or may not have been applied
    │   └── SessionExpiredError the session is gone, and its ephemeral nodes with it
    ├── JuteError               bytes that violate the protocol
    │   └── PacketLengthError   a packet is longer than the limit, or its length is negative
    ├── SaslError               the other side of a SASL exchange does not prove its identity
    └── DataError               environment: the data directory cannot be used as it is
        ├── CorruptDataError    acknowledged data is damaged: names file and offset
        └── DirectoryLockedError
"""

import errno
from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar, Final

OUT_OF_THREADS: Final = (
    "the system starts no more threads: raise its limits (TasksMax, ulimit -u, ulimit -v)"
)
"""Explanation of an error for which `is_out_of_threads` holds."""
OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Error numbers of a lack of descriptors, which says nothing about a file or its disk."""


class ErrorCode(IntEnum):
    """Value of the `err` field of a ZooKeeper reply."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    UNKNOWN_SESSION = -12
    NEW_CONFIG_NO_QUORUM = -13
    RECONFIG_IN_PROGRESS = -14
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    EPHEMERAL_ON_LOCAL_SESSION = -120
    NO_WATCHER = -121
    REQUEST_TIMEOUT = -122
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_SASL = -124
    QUOTA_EXCEEDED = -125
    THROTTLED_OP = -127


class CoordinationError(Exception):
    """Root of the package's exceptions."""


class JuteError(CoordinationError):
    """The bytes violate the protocol: the sender is broken or hostile."""


class PacketLengthError(JuteError):
    """The length of a packet is negative, or above the limit.

    `head` holds the first four bytes of the packet, or fewer if no more have arrived.
    """

    def __init__(self, size_bytes: int, limit_bytes: int, head: bytes) -> None:
        super().__init__(f"packet length {size_bytes} is outside 0..{limit_bytes}")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        self.head = head


class SaslError(CoordinationError):
    """A SASL exchange has failed; the message never contains a secret."""


class OperationError(CoordinationError):
    """An operation on `path` was refused with `code`.

    `of` picks the subclass for a code, so that callers can catch the one they expect.
    """

    CODE: ClassVar[ErrorCode] = ErrorCode.SYSTEM_ERROR

    def __init__(self, code: ErrorCode, path: str = "") -> None:
        super().__init__(f"{code.name.lower()} {path}".rstrip())
        self.code = code
        self.path = path

    @staticmethod
    def of(code: int, path: str = "") -> "OperationError":
        """Return the exception for a wire code; an unknown code is a system error."""
        known = ErrorCode(code) if code in _CODES else ErrorCode.SYSTEM_ERROR
        return _SUBCLASSES.get(known, OperationError)(known, path)


class NoNodeError(OperationError):
    """The node or its parent does not exist."""

    CODE = ErrorCode.NO_NODE


class NodeExistsError(OperationError):
    """The node exists already."""

    CODE = ErrorCode.NODE_EXISTS


class BadVersionError(OperationError):
    """The node has changed since its version was read; read it again."""

    CODE = ErrorCode.BAD_VERSION


class NotEmptyError(OperationError):
    """A node with children cannot be deleted."""

    CODE = ErrorCode.NOT_EMPTY


class NoAuthError(OperationError):
    """The node's ACL does not permit this to any identity of the connection."""

    CODE = ErrorCode.NO_AUTH


class BadArgumentsError(OperationError):
    """The path or a flag is invalid."""

    CODE = ErrorCode.BAD_ARGUMENTS


class InvalidAclError(OperationError):
    """The ACL is empty, or has an invalid scheme or id."""

    CODE = ErrorCode.INVALID_ACL


class NoChildrenForEphemeralsError(OperationError):
    """An ephemeral node cannot have children."""

    CODE = ErrorCode.NO_CHILDREN_FOR_EPHEMERALS


class SessionExpiredError(OperationError):
    """The session is gone; start a new one and create the ephemeral nodes again."""

    CODE = ErrorCode.SESSION_EXPIRED


class SizeLimitError(OperationError):
    """A request or a response exceeds a limit; a retry is useless."""

    SUBJECT: ClassVar[str]

    def __init__(self, size_bytes: int, limit_bytes: int, path: str = "") -> None:
        super().__init__(self.CODE, path)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        place = f" for {self.path}" if self.path else ""
        size = f"{self.SUBJECT} of {self.size_bytes} bytes{place}"
        return f"{size} exceeds the limit of {self.limit_bytes}"


class RequestTooLargeError(SizeLimitError):
    """The request exceeds the limit of every server, and was not sent."""

    CODE = ErrorCode.BAD_ARGUMENTS
    SUBJECT = "request"


class ResponseTooLargeError(SizeLimitError):
    """The response exceeds the limit of this client.

    The connection is lost with it, but not the session.
    """

    CODE = ErrorCode.MARSHALLING_ERROR
    SUBJECT = "response"


class ConnectionLossError(OperationError):
    """The connection was lost before the reply.

    `maybe_applied` is False if the request was never sent. If it is True and the operation was a
    write, read the node again and compare before doing anything else.
    """

    CODE = ErrorCode.CONNECTION_LOSS

    def __init__(
        self,
        code: ErrorCode = ErrorCode.CONNECTION_LOSS,
        path: str = "",
        *,
        maybe_applied: bool = True,
    ) -> None:
        super().__init__(code, path)
        self.maybe_applied = maybe_applied


class MultiError(OperationError):
    """A multi was refused as a whole; `codes` holds the code of each operation.

    Operations before the refused one have OK, and later ones RUNTIME_INCONSISTENCY.
    """

    def __init__(self, codes: Sequence[int]) -> None:
        self.codes = tuple(codes)
        self.index = next(i for i, code in enumerate(self.codes) if code != 0)
        super().__init__(_known(self.codes[self.index]), f"(operation {self.index} of the multi)")


class DataError(CoordinationError):
    """The data directory cannot be used as it is; the message says what to do."""


class DirectoryLockedError(DataError):
    """Another coordinator uses this data directory."""


class CorruptDataError(DataError):
    """Acknowledged data is damaged; nothing was changed on disk."""

    def __init__(self, file: str, offset: int, reason: str, repair: str) -> None:
        super().__init__(f"{file} is damaged at byte {offset}: {reason}. {repair}")
        self.file = file
        self.offset = offset


_CODES = frozenset(int(code) for code in ErrorCode)
_SUBCLASSES: dict[ErrorCode, type[OperationError]] = {
    kind.CODE: kind
    for kind in (
        NoNodeError,
        NodeExistsError,
        BadVersionError,
        NotEmptyError,
        NoAuthError,
        BadArgumentsError,
        InvalidAclError,
        NoChildrenForEphemeralsError,
        SessionExpiredError,
        ConnectionLossError,
    )
}


def _known(code: int) -> ErrorCode:
    return ErrorCode(code) if code in _CODES else ErrorCode.SYSTEM_ERROR


def is_out_of_threads(error: RuntimeError) -> bool:
    """Whether Python could not start a thread, for which it has no class of its own."""
    return str(error) == "can't start new thread"
