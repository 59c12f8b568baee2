"""Errors have types, know whether they are retriable, and contain a remedy."""

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.ids import Offset, TopicPartition
from ottla.client.errors import (
    BrokerError,
    ConfigurationError,
    CorruptRecordsError,
    DeserializationError,
    NotAuthorizedError,
    OffsetOutOfRangeError,
    OttlaError,
    SerializationError,
    TopicExistsError,
    UnknownTopicError,
    broker_error,
)

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopicError),
        (ErrorCode.UNKNOWN_TOPIC_ID, UnknownTopicError),
        (ErrorCode.TOPIC_ALREADY_EXISTS, TopicExistsError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, NotAuthorizedError),
        (ErrorCode.INVALID_CONFIG, BrokerError),
    ],
)
def test_codes_have_types(code: ErrorCode, kind: type[BrokerError]) -> None:
    assert type(broker_error(code, "t")) is kind


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_has_a_message_with_subject_and_name(code: ErrorCode) -> None:
    error = broker_error(code, "topic t")
    assert str(error).startswith("topic t: ")
    assert code.name in str(error)
    assert error.retriable == code.retriable


def test_a_retriable_error_says_so() -> None:
    assert str(broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, "t")).endswith("try again later.")


def test_the_text_of_the_broker_replaces_the_default_text() -> None:
    assert "because of x" in str(broker_error(ErrorCode.INVALID_RECORD, "t-0", "because of x"))


def test_an_unknown_code_stays_readable() -> None:
    error = broker_error(12_345, "t")
    assert "12345" in str(error)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_errors_name_the_position() -> None:
    assert "offset 7" in str(OffsetOutOfRangeError(T0, Offset(7)))
    assert "no position" in str(OffsetOutOfRangeError(T0, None))
    assert "ottla logs verify" in str(CorruptRecordsError(T0, Offset(7), "why"))


def test_a_configuration_error_is_a_value_error_too() -> None:
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(ConfigurationError, OttlaError)


def test_errors_of_serializers_name_the_part_and_the_cause() -> None:
    sent = SerializationError("value", "orders", TypeError("a set"))
    assert str(sent).startswith("topic orders: the value_serializer raised TypeError: a set.")
    read = DeserializationError("key", T0, Offset(7), ValueError("no JSON"))
    assert "key_deserializer raised ValueError at offset 7: no JSON" in str(read)
    assert (read.topic_partition, read.offset) == (T0, 7)
