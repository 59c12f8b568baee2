"""What can go wrong in a broker, besides what its clients are told.

    ValueError
      ConfigError          a configuration that cannot be used: exit code 2
    Exception
      StartupError         the broker cannot start: exit code 1

Clients are told `kafkawire.errors.ApiError`; `as_api_error` makes one of a failure of the storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkawire.errors import ApiError, ErrorCode
from storage.errors import (
    BatchTooLargeError,
    CorruptLogError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    StorageError,
)

_CODES: Final[Mapping[type[StorageError], ErrorCode]] = {
    OffsetOutOfRangeError: ErrorCode.OFFSET_OUT_OF_RANGE,
    BatchTooLargeError: ErrorCode.RECORD_LIST_TOO_LARGE,
    CorruptLogError: ErrorCode.CORRUPT_MESSAGE,
    OutOfOrderSequenceError: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    InvalidProducerEpochError: ErrorCode.INVALID_PRODUCER_EPOCH,
    InvalidTransactionStateError: ErrorCode.INVALID_TXN_STATE,
}


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the key, the value and the rule.

    A value that is None, or may be a secret and is not handed over, is left out.
    """

    def __init__(self, key: str, value: object, rule: str) -> None:
        super().__init__(f"{key}: {rule}" if value is None else f"{key}={value}: {rule}")
        self.key = key


class StartupError(Exception):
    """The broker cannot start; the message says why and what to do."""


def as_api_error(error: Exception) -> ApiError:
    """Return what a client is told about a failure of the storage (StorageError or OSError)."""
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    return ApiError(code or ErrorCode.KAFKA_STORAGE_ERROR, str(error))
