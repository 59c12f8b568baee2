import pytest

from kafkawire.errors import (
    ApiError,
    CorruptBatchError,
    DecodeError,
    EncodeError,
    ErrorCode,
    WireError,
)


def test_codes_are_those_of_kafka_without_a_gap() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 129))
    assert ErrorCode(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("code", "retriable"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (ErrorCode.OFFSET_OUT_OF_RANGE, False),
        (ErrorCode.CORRUPT_MESSAGE, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.BROKER_NOT_AVAILABLE, False),
        (ErrorCode.MESSAGE_TOO_LARGE, False),
        (ErrorCode.NOT_ENOUGH_REPLICAS, True),
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
        (ErrorCode.FENCED_LEADER_EPOCH, True),
        (ErrorCode.STALE_BROKER_EPOCH, False),
    ],
)
def test_retriable_codes_match_those_of_kafka_clients(code: ErrorCode, retriable: bool) -> None:
    assert code.retriable is retriable


def test_every_error_code_has_a_unique_sentence() -> None:
    texts = [code.text for code in ErrorCode]
    assert len(set(texts)) == len(texts)
    assert all(text.endswith(".") and text.count(". ") == 0 for text in texts)


def test_api_error_carries_its_code_and_message() -> None:
    error = ApiError(ErrorCode.INVALID_TIMESTAMP, "record 3 is from 1970")
    assert (error.code, error.message) == (ErrorCode.INVALID_TIMESTAMP, "record 3 is from 1970")
    assert str(error) == "INVALID_TIMESTAMP: record 3 is from 1970"
    assert str(ApiError(ErrorCode.NONE)) == "NONE: No error."


def test_all_errors_about_bytes_are_wire_errors() -> None:
    for error in (DecodeError, EncodeError, CorruptBatchError):
        assert issubclass(error, WireError)
    assert not issubclass(ApiError, WireError)


def test_a_text_that_quotes_a_long_name_fits_a_string_of_the_protocol() -> None:
    error = ApiError(ErrorCode.INVALID_REQUEST, f"no such key: {'x' * 32_767}, it must be short")
    assert len(error.message) < 2_000
    assert error.message.startswith("no such key: xxx")
    assert error.message.endswith("xxx, it must be short")
