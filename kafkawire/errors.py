"""Kafka's error codes, and the exceptions of all readers of its protocol (decision).

    Exception
    |- WireError              bytes that violate the protocol
    |  |- DecodeError         a frame, header or message cannot be read: close the connection
    |  |  `- TrailingBytesError   extra bytes follow a complete message
    |  |- EncodeError         a value does not fit its field or version: a bug in the caller
    |  |  `- MisfitError      in no version
    |  |- VersionError        the two sides share no version that can carry a request
    |  `- CorruptBatchError   a record batch is damaged
    |     `- TooLargeError    its records expand beyond the caller's limit
    `- ApiError               an expected failure, sent to the client as an error code

Source: org.apache.kafka.common.protocol.Errors and the RetriableException hierarchy of Kafka 3.9
for numbers, names and retriability; the texts are ours.
"""

from enum import IntEnum
from typing import Final, Self

_RETRIABLE: Final = True
_FINAL: Final = False


class WireError(Exception):
    """The root: bytes or values that violate the protocol."""


class DecodeError(WireError):
    """The input is malformed; no later byte of the connection can be trusted."""


class TrailingBytesError(DecodeError):
    """A message ends before its input does; `left_bytes` follow it."""

    def __init__(self, left_bytes: int, reader: str = "") -> None:
        text = f"{left_bytes} bytes follow the message"
        super().__init__(f"{reader}: {text}" if reader else text)
        self.left_bytes = left_bytes


class EncodeError(WireError):
    """A message holds a value that its field, or the chosen version, cannot carry."""


class MisfitError(EncodeError):
    """A message holds a value that its field cannot carry in any version."""


class VersionError(WireError):
    """The two sides of a connection share no version that can carry a request."""


class CorruptBatchError(WireError):
    """A record batch is cut short, fails its checksum or contradicts itself."""


class TooLargeError(CorruptBatchError):
    """Compressed records expand beyond the limit that the caller has set."""


class ErrorCode(IntEnum):
    """Every error code of the protocol.

    `retriable` says whether a client may retry the same request; `text` describes the error in one
    sentence.
    """

    retriable: bool
    text: str

    # The defaults are never used; they let type checkers see that `ErrorCode(6)` is a look-up.
    def __new__(cls, code: int, retriable: bool = False, text: str = "") -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = -1, _FINAL, "The broker failed in a way it has no code for."
    NONE = 0, _FINAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, _FINAL, "The partition has no record at this offset."
    CORRUPT_MESSAGE = 2, _RETRIABLE, "A record batch fails its checksum or contradicts itself."
    UNKNOWN_TOPIC_OR_PARTITION = 3, _RETRIABLE, "This broker knows no such topic or partition."
    INVALID_FETCH_SIZE = 4, _FINAL, "The fetch size is not a legal number of bytes."
    LEADER_NOT_AVAILABLE = 5, _RETRIABLE, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, _RETRIABLE, "This broker does not lead or follow the partition."
    REQUEST_TIMED_OUT = 7, _RETRIABLE, "The request was not completed in the time it allowed."
    BROKER_NOT_AVAILABLE = 8, _FINAL, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, _RETRIABLE, "The partition's replica is not available here."
    MESSAGE_TOO_LARGE = 10, _FINAL, "A record batch is larger than the topic allows."
    STALE_CONTROLLER_EPOCH = 11, _FINAL, "The sender is no longer the controller."
    OFFSET_METADATA_TOO_LARGE = 12, _FINAL, "The text beside the committed offset is too long."
    NETWORK_EXCEPTION = 13, _RETRIABLE, "The connection ended before the response arrived."
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRIABLE, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, _RETRIABLE, "The coordinator is not available at the moment."
    NOT_COORDINATOR = 16, _RETRIABLE, "This broker does not coordinate the group or transaction."
    INVALID_TOPIC_EXCEPTION = 17, _FINAL, "The topic's name or use is not allowed."
    RECORD_LIST_TOO_LARGE = 18, _FINAL, "A record batch is larger than a whole segment may be."
    NOT_ENOUGH_REPLICAS = 19, _RETRIABLE, "Too few replicas are in sync; nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        _RETRIABLE,
        "The records were written, but too few replicas are in sync to commit them.",
    )
    INVALID_REQUIRED_ACKS = 21, _FINAL, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, _FINAL, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, _FINAL, "The member shares no protocol with the group."
    INVALID_GROUP_ID = 24, _FINAL, "The group id is not allowed."
    UNKNOWN_MEMBER_ID = 25, _FINAL, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, _FINAL, "The session timeout is outside the broker's limits."
    REBALANCE_IN_PROGRESS = 27, _FINAL, "The group is rebalancing; the member must join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, _FINAL, "The offset commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, _FINAL, "The client may not do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, _FINAL, "The client may not do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, _FINAL, "The client may not do this with the cluster."
    INVALID_TIMESTAMP = 32, _FINAL, "A record's timestamp is too far from the broker's clock."
    UNSUPPORTED_SASL_MECHANISM = 33, _FINAL, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, _FINAL, "This request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, _FINAL, "The broker does not serve this version of the API."
    TOPIC_ALREADY_EXISTS = 36, _FINAL, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, _FINAL, "The number of partitions is not allowed."
    INVALID_REPLICATION_FACTOR = (
        38,
        _FINAL,
        "The replication factor is not between 1 and the brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, _FINAL, "The assignment of replicas to brokers is not valid."
    INVALID_CONFIG = 40, _FINAL, "A configuration key or value is not valid."
    NOT_CONTROLLER = 41, _RETRIABLE, "This broker is not the controller."
    INVALID_REQUEST = 42, _FINAL, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, _FINAL, "The record format does not support this request."
    POLICY_VIOLATION = 44, _FINAL, "The request breaks a policy of this cluster."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _FINAL, "The producer's sequence number leaves a gap."
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL, "The producer's batch was written before."
    INVALID_PRODUCER_EPOCH = 47, _FINAL, "The producer's epoch is older than the last one seen."
    INVALID_TXN_STATE = 48, _FINAL, "The transaction's state does not allow this operation."
    INVALID_PRODUCER_ID_MAPPING = 49, _FINAL, "The producer id is not that of the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, _FINAL, "The transaction timeout is above the broker's limit."
    CONCURRENT_TRANSACTIONS = 51, _RETRIABLE, "The transaction is busy with another operation."
    TRANSACTION_COORDINATOR_FENCED = 52, _FINAL, "A newer transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        _FINAL,
        "The client may not use this transactional id.",
    )
    SECURITY_DISABLED = 54, _FINAL, "The broker runs without an authorizer."
    OPERATION_NOT_ATTEMPTED = 55, _FINAL, "Not tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, _RETRIABLE, "The disk that holds the partition has failed."
    LOG_DIR_NOT_FOUND = 57, _FINAL, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, _FINAL, "The SASL credentials were refused."
    UNKNOWN_PRODUCER_ID = 59, _FINAL, "The partition holds no state of this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, _FINAL, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FINAL, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, _FINAL, "The broker knows no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FINAL, "The client neither owns nor may renew the token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        _FINAL,
        "Delegation tokens cannot be handled over this kind of connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _FINAL, "The client may not use delegation tokens."
    DELEGATION_TOKEN_EXPIRED = 66, _FINAL, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, _FINAL, "The principal's type is not supported."
    NON_EMPTY_GROUP = 68, _FINAL, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, _FINAL, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRIABLE, "The broker has no such fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRIABLE, "The fetch session expects another epoch."
    LISTENER_NOT_FOUND = 72, _RETRIABLE, "The leader has no listener of the name used here."
    TOPIC_DELETION_DISABLED = 73, _FINAL, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = (
        74,
        _RETRIABLE,
        "The request names an older leader epoch than the broker's.",
    )
    UNKNOWN_LEADER_EPOCH = (
        75,
        _RETRIABLE,
        "The request names a newer leader epoch than the broker's.",
    )
    UNSUPPORTED_COMPRESSION_TYPE = 76, _FINAL, "The client cannot read the partition's compression."
    STALE_BROKER_EPOCH = 77, _FINAL, "The broker has registered again since this epoch."
    OFFSET_NOT_AVAILABLE = 78, _RETRIABLE, "A new leader does not yet know how far it may be read."
    MEMBER_ID_REQUIRED = 79, _FINAL, "The member must join again with the id it was given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _RETRIABLE, "The preferred leader cannot lead now."
    GROUP_MAX_SIZE_REACHED = 81, _FINAL, "The group is full."
    FENCED_INSTANCE_ID = 82, _FINAL, "Another member has taken over this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _RETRIABLE, "No replica that may lead is available."
    ELECTION_NOT_NEEDED = 84, _RETRIABLE, "The partition needs no election."
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FINAL, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FINAL, "The group is subscribed to the topic at the moment."
    INVALID_RECORD = 87, _FINAL, "A record breaks a rule of its topic."
    UNSTABLE_OFFSET_COMMIT = 88, _RETRIABLE, "An offset waits for its transaction to be decided."
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRIABLE, "The client has used up its quota for now."
    PRODUCER_FENCED = 90, _FINAL, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, _FINAL, "The request names something that does not exist."
    DUPLICATE_RESOURCE = 92, _FINAL, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, _FINAL, "Sender or receiver is not one of the expected voters."
    INVALID_UPDATE_VERSION = 95, _FINAL, "The given version of the update is not valid."
    FEATURE_UPDATE_FAILED = 96, _FINAL, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FINAL, "The forwarded principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, _FINAL, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, _FINAL, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, _RETRIABLE, "This broker knows no topic of this id."
    DUPLICATE_BROKER_REGISTRATION = 101, _FINAL, "Another live broker uses this broker id."
    BROKER_ID_NOT_REGISTERED = 102, _FINAL, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, _RETRIABLE, "The topic id is not that of the partition's log."
    INCONSISTENT_CLUSTER_ID = 104, _FINAL, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FINAL, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRIABLE, "The fetch session mixes names and topic ids."
    INELIGIBLE_REPLICA = 107, _FINAL, "The new in-sync set has a replica that may not be in it."
    NEW_LEADER_ELECTED = (
        108,
        _FINAL,
        "The change was made, and the partition has another leader now.",
    )
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FINAL, "The offset lies in tiered storage."
    FENCED_MEMBER_EPOCH = (
        110,
        _FINAL,
        "The member's epoch is over; it must join again from scratch.",
    )
    UNRELEASED_INSTANCE_ID = 111, _FINAL, "Another member still holds this instance id."
    UNSUPPORTED_ASSIGNOR = 112, _FINAL, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, _FINAL, "The member must learn its new epoch and try again."
    MISMATCHED_ENDPOINT_TYPE = 114, _FINAL, "The request was sent to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FINAL, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, _FINAL, "There is no controller of this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, _FINAL, "The telemetry subscription is unknown or outdated."
    TELEMETRY_TOO_LARGE = 118, _FINAL, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, _FINAL, "The controller refused the broker's registration."
    TRANSACTION_ABORTABLE = 120, _FINAL, "The transaction has failed and must be aborted."
    INVALID_RECORD_STATE = 121, _FINAL, "The record's delivery state does not allow this."
    SHARE_SESSION_NOT_FOUND = 122, _RETRIABLE, "The broker has no such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRIABLE, "The share session expects another epoch."
    FENCED_STATE_EPOCH = 124, _FINAL, "The share group's state epoch has moved on."
    INVALID_VOTER_KEY = 125, _FINAL, "The voter's key is not that of the receiving replica."
    DUPLICATE_VOTER = 126, _FINAL, "The voter is in the set of voters already."
    VOTER_NOT_FOUND = 127, _FINAL, "The voter is not in the set of voters."
    INVALID_REGULAR_EXPRESSION = 128, _FINAL, "The regular expression is not valid."


def name_of(code: int) -> str:
    """Return the name of an error code in a response, or its number if it is unknown."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


MAX_MESSAGE_CHARACTERS: Final = 1_000
"""Limit of an error's text, which quotes input and must fit a string of the protocol."""


class ApiError(Exception):
    """A request, or a part of it, fails with a code that the client understands.

    `message` is for the client's user, and adds details to `code`.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        if len(message) > MAX_MESSAGE_CHARACTERS:
            half = MAX_MESSAGE_CHARACTERS // 2
            message = f"{message[:half]} ... {message[-half:]}"
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        # Made when it is read: one request can fail for each of 20,000 partitions.
        return f"{self.code.name}: {self.message or self.code.text}"

    def without_origin(self) -> Self:
        """Drop the traceback, so that the exception can be stored.

        Otherwise a stack frame that refers to the exception would form a reference cycle with it,
        and stay in memory until the next garbage collection.
        """
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self
