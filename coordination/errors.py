"""Everything that coordination can say went wrong (decision).

The tree:

    CoordinationError
    ├── OperationError          expected: an operation answered with an `ErrorCode`
    │   ├── NoNodeError, NodeExistsError, BadVersionError, NotEmptyError, NoAuthError,
    │   │   BadArgumentsError, InvalidAclError, NoChildrenForEphemeralsError
    │   ├── MultiError          one operation of a multi failed, so none was applied
    │   ├── ConnectionLossError the answer was lost; the operation may or may not have been applied
    │   ├── SessionExpiredError the session is gone, and its ephemeral nodes with it
    │   └── AuthFailedError     the server refused the credentials
    ├── JuteError               bytes that are not what the protocol says
    └── DataError               environment: the data directory cannot be used as it is
        ├── CorruptDataError    acknowledged data is damaged: names file and offset
        └── DirectoryLockedError
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar


class ErrorCode(IntEnum):
    """The `err` field of a ZooKeeper reply."""

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
    """Bytes that do not follow the protocol: the sender is broken or hostile."""


class OperationError(CoordinationError):
    """An operation was refused; `code` says why, `path` where.

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
    """The node, or its parent, is not there."""

    CODE = ErrorCode.NO_NODE


class NodeExistsError(OperationError):
    """Somebody created the node before."""

    CODE = ErrorCode.NODE_EXISTS


class BadVersionError(OperationError):
    """The node changed since its version was read: read it again."""

    CODE = ErrorCode.BAD_VERSION


class NotEmptyError(OperationError):
    """A node with children cannot be deleted."""

    CODE = ErrorCode.NOT_EMPTY


class NoAuthError(OperationError):
    """The node's ACL does not allow this to anybody this connection is."""

    CODE = ErrorCode.NO_AUTH


class BadArgumentsError(OperationError):
    """The path or a flag is illegal."""

    CODE = ErrorCode.BAD_ARGUMENTS


class InvalidAclError(OperationError):
    """The ACL is empty, or names a scheme or id that nobody can have."""

    CODE = ErrorCode.INVALID_ACL


class NoChildrenForEphemeralsError(OperationError):
    """An ephemeral node has no children."""

    CODE = ErrorCode.NO_CHILDREN_FOR_EPHEMERALS


class AuthFailedError(OperationError):
    """The server refused the credentials and closed the connection."""

    CODE = ErrorCode.AUTH_FAILED


class SessionExpiredError(OperationError):
    """The session is gone. Start a new one, and create the ephemeral nodes again."""

    CODE = ErrorCode.SESSION_EXPIRED


class RequestTooLargeError(OperationError):
    """The request is larger than any server takes: it was not sent, and never can be."""

    CODE = ErrorCode.BAD_ARGUMENTS

    def __init__(self, size_bytes: int, limit_bytes: int, path: str = "") -> None:
        super().__init__(self.CODE, path)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        place = f" for {self.path}" if self.path else ""
        return f"a request of {self.size_bytes} bytes{place} exceeds {self.limit_bytes}"


class ConnectionLossError(OperationError):
    """No answer came.

    `maybe_applied` is False when the request never left this process. When it is True and
    the operation was a write, re-read and compare before doing anything else.
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
    """A multi was refused as a whole; `codes` holds the code of every operation in it.

    Operations before the failing one have OK, those after it RUNTIME_INCONSISTENCY.
    """

    def __init__(self, codes: Sequence[int]) -> None:
        self.codes = tuple(codes)
        self.index = next(i for i, code in enumerate(self.codes) if code != 0)
        super().__init__(_known(self.codes[self.index]), f"(operation {self.index} of the multi)")


class DataError(CoordinationError):
    """The data directory cannot be used as it is; the message says what to do."""


class DirectoryLockedError(DataError):
    """Another coordinator runs on this data directory."""


class CorruptDataError(DataError):
    """Data that was acknowledged is damaged; nothing was changed on disk."""

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
        AuthFailedError,
        SessionExpiredError,
        ConnectionLossError,
    )
}


def _known(code: int) -> ErrorCode:
    return ErrorCode(code) if code in _CODES else ErrorCode.SYSTEM_ERROR
