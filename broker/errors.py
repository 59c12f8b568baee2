"""What can go wrong in a broker, besides what its clients are told.

    ValueError
      ConfigError          a configuration that cannot be used: exit code 2
    Exception
      StartupError         the broker cannot start: exit code 1

Clients are told `kafkawire.errors.ApiError`; `as_api_error` makes one of a failure of the storage.
"""

from __future__ import annotations

from kafkawire.errors import ApiError, ErrorCode
from storage.errors import BatchTooLargeError, CorruptLogError, OffsetOutOfRangeError


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the key, the value and the rule."""

    def __init__(self, key: str, value: object, rule: str) -> None:
        super().__init__(f"{key}={value}: {rule}")
        self.key = key


class StartupError(Exception):
    """The broker cannot start; the message says why and what to do."""


def as_api_error(error: Exception) -> ApiError:
    """Return what a client is told about a failure of the storage (StorageError or OSError)."""
    if isinstance(error, OffsetOutOfRangeError):
        return ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, str(error))
    if isinstance(error, BatchTooLargeError):
        return ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, str(error))
    if isinstance(error, CorruptLogError):
        return ApiError(ErrorCode.CORRUPT_MESSAGE, str(error))
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
