"""The errors of the client (decision).

    OttlaError
    ├── ConfigurationError          an argument is out of range (also a ValueError)
    ├── ClientClosedError           used before `start`, after `close`, or in another loop
    ├── ConnectionLostError         the connection ended before the response arrived
    │   ├── BrokerUnreachableError  there was no connection yet: nothing was sent
    │   └── NoBrokerAvailableError  none of the known addresses could be reached
    ├── RequestTimedOutError        no response within the timeout
    ├── ProtocolError               an invalid response: not a Kafka broker, or a bug
    ├── AuthenticationFailedError   wrong credentials, or a certificate that is not trusted
    │   └── TokenProviderError      the provider of tokens for OAUTHBEARER raised
    ├── UnsupportedVersionError     client and broker share no version of a request
    ├── SchemaError                 a schema cannot be used, or data or a value does not fit it
    ├── SchemaRegistryError         the registry refused a request, or did not answer
    ├── BrokerError                 the broker responded with an error code
    │   ├── UnknownTopicError
    │   ├── TopicExistsError
    │   ├── NotAuthorizedError
    │   └── LeaderElectionError     a partition elected no leader; `elected` names the others
    ├── ProduceError
    │   ├── RecordTooLargeError     refused before it was sent
    │   ├── BufferFullError         `send_nowait` found no room
    │   ├── UnknownPartitionError   the topic has no such partition
    │   ├── SerializationError      a serializer raised; nothing was sent
    │   ├── DeliveryTimedOutError   not acknowledged in time; it may or may not be in the log
    │   └── RecordAbortedError      not sent, because its transaction was aborted
    ├── TransactionError
    │   ├── TransactionAbortableError  abort the transaction, then begin another
    │   ├── TransactionTimedOutError   no answer in time: call the same method again
    │   ├── TransactionStateError      the method does not fit the state; nothing has changed
    │   └── TransactionFatalError      close the producer, and make a new one
    │       └── ProducerFencedError    give up: another producer uses the transactional id
    └── ConsumeError
        ├── NotAssignedError        the partition is not assigned to this consumer
        ├── NotInGroupError         the method needs a group, or is not for members of one
        ├── OffsetOutOfRangeError   the position is gone, and `auto_offset_reset` is "none"
        ├── LogTruncatedError       records that were read are no longer in the log
        ├── CommitFailedError       another member may own the partitions: nothing was committed
        ├── RebalanceFailedError    a callback for assigned or revoked partitions raised
        ├── DeserializationError    a deserializer raised; the position stays before the record
        └── CorruptRecordsError     a batch failed its checksum or cannot be decoded

Every message contains the offending value and a remedy.
"""

from collections.abc import Mapping, Sequence

from kafkawire.errors import ErrorCode
from kafkawire.ids import Offset, TopicPartition


class OttlaError(Exception):
    """Base class of all errors of the client."""

    retriable: bool = False
    """Whether a retry may succeed without any change by the caller."""


class ConfigurationError(OttlaError, ValueError):
    """An argument is out of range."""


class ClientClosedError(OttlaError):
    """The client was used before `start`, after `close`, or in another event loop."""


class ConnectionLostError(OttlaError):
    """The connection ended before the response arrived; the request may have been carried out."""

    retriable = True


class BrokerUnreachableError(ConnectionLostError):
    """No connection could be opened, so nothing was sent."""


class NoBrokerAvailableError(ConnectionLostError):
    """None of the known addresses could be reached."""


class RequestTimedOutError(OttlaError):
    """No response arrived within the timeout; the request may have been carried out."""

    retriable = True


class ProtocolError(OttlaError):
    """The peer sent bytes that are not a valid response."""


class AuthenticationFailedError(OttlaError):
    """The broker refused the credentials, or is not trusted itself. A retry would fail, too."""


class TokenProviderError(AuthenticationFailedError):
    """The token provider of the application raised, which is the cause. The next call may succeed.

    A request that was just begun raises this; records that were accepted before are sent later.
    """


class UnsupportedVersionError(OttlaError):
    """Client and broker share no version of a request."""


class SchemaError(OttlaError, ValueError):
    """A schema cannot be used, or a value or the bytes of a record do not fit it."""


class SchemaRegistryError(OttlaError):
    """The schema registry refused a request, could not be reached, or sent no valid answer.

    `status` is the HTTP status and `code` the registry's own; each is None if there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: int | None = None,
        retriable: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retriable = retriable


class BrokerError(OttlaError):
    """The broker refused a request with an error code of Kafka's protocol.

    `code` is that error code, `subject` the topic, partition or request that was refused.
    """

    def __init__(self, code: ErrorCode, subject: str, detail: str = "") -> None:
        """Describe the refusal of `subject`; `detail` replaces the default text of `code`."""
        self.code = code
        self.subject = subject
        self.detail = detail
        self.retriable = code.retriable
        text = (detail or code.text).removesuffix(".")
        advice = _ADVICE.get(code, _RETRY_ADVICE if code.retriable else "")
        super().__init__(" ".join(filter(None, (f"{subject}: {text} ({code.name}).", advice))))


class UnknownTopicError(BrokerError):
    """The cluster has no such topic, or hides it from this user."""


class TopicExistsError(BrokerError):
    """The topic to create already exists."""


class NotAuthorizedError(BrokerError):
    """The cluster's access rules forbid the request to this user."""


class LeaderElectionError(BrokerError):
    """Partitions could not elect a leader: the first of `refused`, with the others as notes.

    `elected` are the partitions whose leader has changed nevertheless.
    """

    def __init__(
        self,
        refused: Mapping[TopicPartition, BrokerError],
        elected: Sequence[TopicPartition],
    ) -> None:
        first, *others = refused.values()
        super().__init__(first.code, first.subject, first.detail)
        self.refused = dict(refused)
        self.elected = list(elected)
        for other in others:
            self.add_note(str(other))


class ProduceError(OttlaError):
    """A record was not accepted, or its delivery failed or has an unknown outcome."""


class RecordTooLargeError(ProduceError):
    """A single record exceeds the limit of a request or of the buffer; nothing was sent."""


class BufferFullError(ProduceError):
    """No memory for the record became free in time (`send`), or at once (`send_nowait`)."""


class UnknownPartitionError(ProduceError):
    """The topic has no partition with that number."""


class SerializationError(ProduceError):
    """A serializer of the application raised; nothing was sent."""

    def __init__(self, part: str, topic: str, cause: BaseException) -> None:
        super().__init__(
            f"topic {topic}: the {part}_serializer raised {type(cause).__name__}: {cause}. "
            f"Nothing was sent: correct the {part}, or the serializer."
        )


class DeliveryTimedOutError(ProduceError):
    """No acknowledgement within `delivery_timeout_ms`; the record may or may not be in the log."""


class RecordAbortedError(ProduceError):
    """The record was not sent, because its transaction was aborted or failed."""


class TransactionError(OttlaError):
    """A step of a transaction failed; the class says what to do next."""

    may_be_committed: bool = False
    """Whether the transaction may be committed nevertheless.

    An answer to the commit was lost, or the coordinator was replaced before it could confirm it.
    """


class TransactionAbortableError(TransactionError):
    """The transaction cannot be committed: abort it, and begin another one."""


class TransactionTimedOutError(TransactionError):
    """No answer within `max_block_ms`: call the same method again, or close the producer."""

    retriable = True


class TransactionStateError(TransactionError):
    """The method does not fit the state of the producer; nothing has changed."""


class TransactionFatalError(TransactionError):
    """The producer can begin no further transaction: close it, and make a new one."""


class ProducerFencedError(TransactionFatalError):
    """A newer producer uses the transactional id, or the transaction timed out: give up."""


class ConsumeError(OttlaError):
    """The consumer cannot continue at its position, or not in its group."""


class NotAssignedError(ConsumeError):
    """The partition is not assigned to this consumer."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(f"{topic_partition} is not assigned: call assign([...]) with it first.")
        self.topic_partition = topic_partition


class NotInGroupError(ConsumeError):
    """The method needs a subscription in a group, or conflicts with one."""


class OffsetOutOfRangeError(ConsumeError):
    """The position is not in the log or of a topic that is gone, and no reset policy is set."""

    def __init__(
        self, topic_partition: TopicPartition, offset: Offset | None, *, is_recreated: bool = False
    ) -> None:
        where = "no position is set" if offset is None else f"offset {offset} is not in the log"
        if is_recreated:
            where = "the topic was deleted and created again"
        super().__init__(
            f"{topic_partition}: {where} and auto_offset_reset is 'none'. Call seek(...), "
            "seek_to_beginning(...) or seek_to_end(...), or choose a reset policy."
        )
        self.topic_partition = topic_partition
        self.offset = offset


class LogTruncatedError(ConsumeError):
    """An unclean election truncated the log below the position, and no reset policy is set.

    `diverging_offset` is the first offset at which the logs differ, None if it is unknown.
    """

    def __init__(
        self, topic_partition: TopicPartition, offset: Offset, diverging_offset: Offset | None
    ) -> None:
        since = "an unknown offset" if diverging_offset is None else f"offset {diverging_offset}"
        super().__init__(
            f"{topic_partition}: records up to offset {offset} were read, but the log was "
            f"replaced from {since} on, and auto_offset_reset is 'none'. Call seek(...) to "
            "continue."
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.diverging_offset = diverging_offset


class CommitFailedError(ConsumeError):
    """Nothing was committed: this consumer is no longer a member of the group's generation."""

    def __init__(self, group_id: str) -> None:
        super().__init__(
            f"group {group_id} has removed this consumer, and its partitions may belong to "
            "another member now: nothing was committed. Read more often, or raise "
            "max_poll_interval_ms or session_timeout_ms."
        )
        self.group_id = group_id


class RebalanceFailedError(ConsumeError):
    """A callback that was passed to `subscribe` raised; its error is the `__cause__`."""

    def __init__(self, group_id: str, cause: Exception) -> None:
        super().__init__(
            f"group {group_id}: a callback of subscribe(...) raised {type(cause).__name__}: "
            f"{cause}. Call subscribe(...) again to continue."
        )
        self.__cause__ = cause


class DeserializationError(ConsumeError):
    """A deserializer of the application raised. Seek past `offset` to skip the record."""

    def __init__(
        self, part: str, topic_partition: TopicPartition, offset: Offset, cause: BaseException
    ) -> None:
        super().__init__(
            f"{topic_partition}: the {part}_deserializer raised {type(cause).__name__} at offset "
            f"{offset}: {cause}. Correct it, or seek past the record."
        )
        self.topic_partition = topic_partition
        self.offset = offset


class CorruptRecordsError(ConsumeError):
    """A fetched batch is damaged. The position stays before it; seek past it to continue."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset, reason: str) -> None:
        super().__init__(
            f"{topic_partition}: the batch at offset {offset} is damaged ({reason}). Check the "
            f"broker's log with `ottla logs verify`, or seek past it."
        )
        self.topic_partition = topic_partition
        self.offset = offset


_RETRY_ADVICE = "This is temporary: try again later."

_ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Create the topic first, or check its name.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Use it as it is, or delete it first.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "Ask for no more replicas than there are live brokers.",
    ErrorCode.INVALID_PARTITIONS: "Ask for at least one partition, and more than exist already.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Use letters, digits, '.', '_' and '-', at most 249.",
    ErrorCode.MESSAGE_TOO_LARGE: "Send smaller records, or raise the topic's max.message.bytes.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The records may or may not be in the log.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Wait until replicas are back, or lower min.insync.replicas.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Ask for the right to use this topic.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Ask for rights on the cluster.",
    ErrorCode.FENCED_INSTANCE_ID: "Another consumer uses this group_instance_id: end one of them.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "Use an assignor that all members of the group have.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "Choose a session_timeout_ms that the broker allows.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "Start fewer consumers, or raise the broker's limit.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Ask for the right to use this group.",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "Choose a transaction_timeout_ms of at most the brokers' transaction.max.timeout.ms."
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Ask for the right to use this id.",
    ErrorCode.POLICY_VIOLATION: "Ask the cluster's operator what the policy demands.",
}

_CLASSES: dict[ErrorCode, type[BrokerError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: NotAuthorizedError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: NotAuthorizedError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: NotAuthorizedError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NotAuthorizedError,
}


def broker_error(code: int, subject: str, detail: str | None = None) -> BrokerError:
    """Return the typed error for a wire `code`; the text of an unknown code has its number."""
    known = known_code(code)
    if known is ErrorCode.UNKNOWN_SERVER_ERROR:
        detail = detail or f"the broker failed with error code {code}"
    return _CLASSES.get(known, BrokerError)(known, subject, detail or "")


def no_result(subject: str) -> ProtocolError:
    """Return the error for a subject of a request that its response leaves out."""
    return ProtocolError(f"the response has no result for {subject}, whose outcome is unknown")


_BY_CODE = {int(known): known for known in ErrorCode}


def known_code(code: int) -> ErrorCode:
    """Return the error for a wire `code`; a code newer than this client is UNKNOWN_SERVER_ERROR."""
    return _BY_CODE.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
