"""Exceptions of error codes, and their texts."""

from coordination.errors import (
    ConnectionLossError,
    ErrorCode,
    MultiError,
    NoNodeError,
    OperationError,
    is_out_of_threads,
)


def test_a_code_becomes_the_exception_that_callers_catch() -> None:
    error = OperationError.of(ErrorCode.NO_NODE, "/a")
    assert isinstance(error, NoNodeError)
    assert (str(error), error.code, error.path) == ("no_node /a", ErrorCode.NO_NODE, "/a")


def test_an_unknown_code_is_a_system_error() -> None:
    assert OperationError.of(-9999).code == ErrorCode.SYSTEM_ERROR


def test_a_lost_request_may_be_applied_by_default() -> None:
    assert ConnectionLossError().maybe_applied
    assert not ConnectionLossError(path="/a", maybe_applied=False).maybe_applied


def test_a_multi_error_names_the_refused_operation() -> None:
    codes = [0, ErrorCode.BAD_VERSION, ErrorCode.RUNTIME_INCONSISTENCY]
    error = MultiError(codes)
    assert (error.index, error.code, error.codes) == (1, ErrorCode.BAD_VERSION, tuple(codes))
    assert str(error) == "bad_version (operation 1 of the multi)"
    assert MultiError([-9999]).code == ErrorCode.SYSTEM_ERROR


def test_a_lack_of_threads_is_distinguished_from_other_errors() -> None:
    assert is_out_of_threads(RuntimeError("can't start new thread"))
    assert not is_out_of_threads(RuntimeError("Event loop is closed"))
