"""What can go wrong for a user of the client, and what to do about it. Decision: no I/O.

    OttlaError
    ├── ConfigurationError          an argument is out of range (also a ValueError)
    ├── ClientClosedError           used before `start`, after `close`, or in another loop
    ├── ConnectionLostError         the connection ended before the answer came
    │   ├── BrokerUnreachableError  there was no connection yet: nothing was sent
    │   └── NoBrokerAvailableError  none of the known addresses could be reached
    ├── RequestTimedOutError        no answer within the time allowed
    ├── ProtocolError               the answer made no sense: not a Kafka broker, or a bug
    ├── UnsupportedVersionError     client and broker share no version of a request
    ├── BrokerError                 the broker answered with an error code
    │   ├── UnknownTopicError
    │   ├── TopicExistsError
    │   └── NotAuthorizedError
    ├── ProduceError
    │   ├── RecordTooLargeError     refused before it was sent
    │   ├── BufferFullError         `send_nowait` found no room
    │   ├── UnknownPartitionError   the topic has no such partition
    │   └── DeliveryTimedOutError   not acknowledged in time; it may or may not be in the log
    └── ConsumeError
        ├── NotAssignedError        the partition is not assigned to this consumer
        ├── NotInGroupError         this needs a group, or excludes being a member of one
        ├── OffsetOutOfRangeError   the position is gone, and `auto_offset_reset` is "none"
        ├── LogTruncatedError       records that were read are not in the log any more
        ├── CommitFailedError       the group has gone on: partitions may be another's
        ├── RebalanceFailedError    a function for partitions that come or go has raised
        └── CorruptRecordsError     a batch failed its checksum or cannot be read

Every message says what happened, with the value, and what the caller can do.
"""

from kafkawire.errors import ErrorCode
from kafkawire.ids import Offset, TopicPartition


class OttlaError(Exception):
    """Root of everything that the client raises on purpose."""

    retriable: bool = False


class ConfigurationError(OttlaError, ValueError):
    """An argument is out of range."""


class ClientClosedError(OttlaError):
    """The client was used before `start`, after `close`, or in another event loop."""


class ConnectionLostError(OttlaError):
    """The connection ended before the answer came, so the request may have been carried out."""

    retriable = True


class BrokerUnreachableError(ConnectionLostError):
    """No connection could be made, so nothing was sent."""


class NoBrokerAvailableError(ConnectionLostError):
    """None of the known addresses could be reached."""


class RequestTimedOutError(OttlaError):
    """No answer came within the time allowed; the request may have been carried out."""

    retriable = True


class ProtocolError(OttlaError):
    """The peer sent bytes that are no valid answer."""


class UnsupportedVersionError(OttlaError):
    """Client and broker share no version of a request."""


class BrokerError(OttlaError):
    """The broker refused a request with one of Kafka's error codes."""

    def __init__(self, code: ErrorCode, subject: str, detail: str = "") -> None:
        """Say that `subject` (a topic, a partition, a request) was refused with `code`."""
        self.code = code
        self.subject = subject
        self.detail = detail
        self.retriable = code.retriable
        text = (detail or code.text).removesuffix(".")
        advice = _ADVICE.get(code, _RETRY_ADVICE if code.retriable else "")
        super().__init__(" ".join(filter(None, (f"{subject}: {text} ({code.name}).", advice))))


class UnknownTopicError(BrokerError):
    """The cluster has no such topic, or does not show it to this user."""


class TopicExistsError(BrokerError):
    """The topic to create exists already."""


class NotAuthorizedError(BrokerError):
    """The cluster's rules do not allow this user to do that."""


class ProduceError(OttlaError):
    """A record was not accepted for delivery, or its delivery is not known to have worked."""


class RecordTooLargeError(ProduceError):
    """The record alone is larger than a request or the buffer may be; nothing was sent."""


class BufferFullError(ProduceError):
    """`send_nowait` found no room; `await send(...)` would have waited for it."""


class UnknownPartitionError(ProduceError):
    """The topic has no partition of that number."""


class DeliveryTimedOutError(ProduceError):
    """Not acknowledged within `delivery_timeout_ms`; the record may or may not be in the log."""


class ConsumeError(OttlaError):
    """The consumer cannot go on from where it stands."""


class NotAssignedError(ConsumeError):
    """The partition is not assigned to this consumer."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(f"{topic_partition} is not assigned: call assign([...]) with it first.")
        self.topic_partition = topic_partition


class NotInGroupError(ConsumeError):
    """The consumer has no group, or leaves no choice to it."""


class OffsetOutOfRangeError(ConsumeError):
    """The position does not exist in the log (any more), and no reset policy is set."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset | None) -> None:
        where = "no position is set" if offset is None else f"offset {offset} is not in the log"
        super().__init__(
            f"{topic_partition}: {where} and auto_offset_reset is 'none'. Call seek(...), "
            "seek_to_beginning(...) or seek_to_end(...), or choose a reset policy."
        )
        self.topic_partition = topic_partition
        self.offset = offset


class LogTruncatedError(ConsumeError):
    """The log was cut off below the position, after an unclean election; no policy is set."""

    def __init__(
        self, topic_partition: TopicPartition, offset: Offset, diverging_offset: Offset | None
    ) -> None:
        since = "an unknown offset" if diverging_offset is None else f"offset {diverging_offset}"
        super().__init__(
            f"{topic_partition}: the log differs from {since} on from what was read up to offset "
            f"{offset}, and auto_offset_reset is 'none'. Call seek(...) to go on."
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.diverging_offset = diverging_offset


class CommitFailedError(ConsumeError):
    """Nothing was committed: this consumer is no member of the group's generation any more."""

    def __init__(self, group_id: str) -> None:
        super().__init__(
            f"group {group_id} has gone on without this consumer, and its partitions may be "
            "another's by now: nothing was committed. Read more often, or raise "
            "max_poll_interval_ms or session_timeout_ms."
        )
        self.group_id = group_id


class RebalanceFailedError(ConsumeError):
    """A function that was given to `subscribe` has raised; its error is the cause of this one."""

    def __init__(self, group_id: str, cause: Exception) -> None:
        super().__init__(
            f"group {group_id}: a function told of partitions that come or go has raised "
            f"{type(cause).__name__}: {cause}. Call subscribe(...) again to go on."
        )
        self.__cause__ = cause


class CorruptRecordsError(ConsumeError):
    """A fetched batch is damaged. The position stands before it, so reading on meets it again."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset, reason: str) -> None:
        super().__init__(
            f"{topic_partition}: the batch at offset {offset} is damaged ({reason}). Check the "
            f"broker's log with `ottla logs verify`, or seek past it."
        )
        self.topic_partition = topic_partition
        self.offset = offset


_RETRY_ADVICE = "This passes by itself: try again later."

_ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Create the topic first, or check its name.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Use it as it is, or delete it first.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "Ask for no more replicas than there are live brokers.",
    ErrorCode.INVALID_PARTITIONS: "Ask for one or more, and for more than there are.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Use letters, digits, '.', '_' and '-', at most 249.",
    ErrorCode.MESSAGE_TOO_LARGE: "Send smaller records, or raise the topic's max.message.bytes.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Wait until replicas are back, or lower min.insync.replicas.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Ask for the right to use this topic.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Ask for rights on the cluster.",
    ErrorCode.FENCED_INSTANCE_ID: "Another consumer uses this group_instance_id: end one of them.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "Use an assignor that all members of the group have.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "Choose a session_timeout_ms that the broker allows.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "Start fewer consumers, or raise the broker's limit.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Ask for the right to use this group.",
    ErrorCode.POLICY_VIOLATION: "Ask the cluster's operator what the policy demands.",
}

_CLASSES: dict[ErrorCode, type[BrokerError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: NotAuthorizedError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: NotAuthorizedError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: NotAuthorizedError,
}


def broker_error(code: int, subject: str, detail: str | None = None) -> BrokerError:
    """Return the typed error for a wire `code`; a code newer than this client is kept readable."""
    known = known_code(code)
    if known is ErrorCode.UNKNOWN_SERVER_ERROR:
        detail = detail or f"the broker failed with error code {code}"
    return _CLASSES.get(known, BrokerError)(known, subject, detail or "")


_BY_CODE = {int(known): known for known in ErrorCode}


def known_code(code: int) -> ErrorCode:
    """Return the error with the wire `code`; one newer than this client counts as unknown."""
    return _BY_CODE.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
