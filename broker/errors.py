"""Errors of a broker that are not sent to clients.

    ValueError
      ConfigError          the configuration cannot be used: exit code 2
    Exception
      StartupError         the broker cannot start: exit code 1

Clients receive a `kafkawire.errors.ApiError`; `as_api_error` makes one from a storage failure, and
`storage_failure` also logs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from clusterstate.errors import RegistrationError
from coordination.errors import NoAuthError, OperationError
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicPartition
from storage.errors import (
    BatchTooLargeError,
    CoordinatorFencedError,
    CorruptLogError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    LogDirFullError,
    LogDirOfflineError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    StorageError,
)

ALREADY_REPORTED: Final = (LogDirFullError, LogDirOfflineError)
"""Errors that are logged once, when the state begins, and not for each failed request."""

log = structlog.get_logger(__name__)

_CODES: Final[Mapping[type[StorageError], ErrorCode]] = {
    OffsetOutOfRangeError: ErrorCode.OFFSET_OUT_OF_RANGE,
    BatchTooLargeError: ErrorCode.RECORD_LIST_TOO_LARGE,
    CorruptLogError: ErrorCode.CORRUPT_MESSAGE,
    OutOfOrderSequenceError: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    InvalidProducerEpochError: ErrorCode.INVALID_PRODUCER_EPOCH,
    InvalidTransactionStateError: ErrorCode.INVALID_TXN_STATE,
    CoordinatorFencedError: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the key, the value and the rule.

    The message omits the value if `value` is None. Callers pass None for possible secrets.
    """

    def __init__(self, key: str, value: object, rule: str) -> None:
        super().__init__(f"{key}: {rule}" if value is None else f"{key}={value}: {rule}")
        self.key = key


class StartupError(Exception):
    """The broker cannot start; the message says why and what to do."""


def as_api_error(error: Exception) -> ApiError:
    """Return the error for a client after a storage failure (StorageError or OSError)."""
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    return ApiError(code or ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def storage_failure(partition: tuple[str, int], error: Exception) -> ApiError:
    """Return the error for a client whose request failed in storage; log it if the disk failed."""
    reported = as_api_error(error)
    is_disk = reported.code is ErrorCode.KAFKA_STORAGE_ERROR
    if is_disk and not isinstance(error, ALREADY_REPORTED):
        log.error("log.failed", partition=str(TopicPartition(*partition)), error=str(error))
    return reported


def reason_of_failed_start(error: BaseException) -> str | None:
    """Return the reason, for operators, why a broker could not start; None for a bug."""
    if isinstance(error, NoAuthError):
        return (
            f"the coordinator does not let this broker access {error.path}: correct the access "
            "control list of the znode, or the broker's login"
        )
    if isinstance(error, StorageError | OperationError | RegistrationError | OSError):
        return str(error)
    return None
