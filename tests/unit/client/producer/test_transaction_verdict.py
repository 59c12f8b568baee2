"""The next step after each error of each request, as in Kafka's own producer."""

import pytest

from kafkawire.errors import ErrorCode
from ottla.client.errors import (
    AuthenticationFailedError,
    BrokerError,
    BrokerUnreachableError,
    ConnectionLostError,
    DeliveryTimedOutError,
    NoBrokerAvailableError,
    OttlaError,
    ProtocolError,
    RequestTimedOutError,
    TokenProviderError,
    UnsupportedVersionError,
    broker_error,
)
from ottla.client.producer.transaction_verdict import (
    Step,
    Verdict,
    is_doubtful,
    is_unanswered,
    judge,
    worst,
)

RETRY, ABORT, FORGOTTEN = Verdict.RETRY, Verdict.ABORT, Verdict.FORGOTTEN
FENCED, FATAL = Verdict.FENCED, Verdict.FATAL
REQUESTS = (Step.INITIALIZE, Step.ADD, Step.ADD_OFFSETS, Step.COMMIT_OFFSETS, Step.END)

# One row per code: the verdicts for InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn,
# TxnOffsetCommit, EndTxn and Produce.
TABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (RETRY, RETRY, RETRY, RETRY, RETRY, ABORT),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (RETRY, RETRY, RETRY, RETRY, RETRY, ABORT),
    ErrorCode.NOT_COORDINATOR: (RETRY, RETRY, RETRY, RETRY, RETRY, ABORT),
    ErrorCode.CONCURRENT_TRANSACTIONS: (RETRY, RETRY, RETRY, RETRY, RETRY, ABORT),
    ErrorCode.REQUEST_TIMED_OUT: (RETRY, RETRY, RETRY, RETRY, RETRY, ABORT),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (RETRY, RETRY, RETRY, RETRY, RETRY, ABORT),
    ErrorCode.INVALID_PRODUCER_EPOCH: (FENCED, FENCED, FENCED, FENCED, FENCED, ABORT),
    ErrorCode.PRODUCER_FENCED: (FENCED, FENCED, FENCED, FENCED, FENCED, FENCED),
    ErrorCode.INVALID_TXN_STATE: (FATAL, FATAL, FATAL, FATAL, FATAL, ABORT),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: (FATAL, FORGOTTEN, FORGOTTEN, FATAL, FORGOTTEN, ABORT),
    ErrorCode.UNKNOWN_PRODUCER_ID: (FATAL, FORGOTTEN, FORGOTTEN, FATAL, FORGOTTEN, ABORT),
    ErrorCode.TRANSACTION_ABORTABLE: (FATAL, ABORT, ABORT, ABORT, ABORT, ABORT),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (FATAL, FATAL, FATAL, FATAL, FATAL, FATAL),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (FATAL, ABORT, FATAL, ABORT, FATAL, ABORT),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (FATAL, ABORT, ABORT, ABORT, FATAL, ABORT),
    ErrorCode.ILLEGAL_GENERATION: (FATAL, ABORT, FATAL, ABORT, FATAL, ABORT),
    ErrorCode.UNKNOWN_MEMBER_ID: (FATAL, ABORT, FATAL, ABORT, FATAL, ABORT),
    ErrorCode.FENCED_INSTANCE_ID: (FATAL, ABORT, FATAL, ABORT, FATAL, ABORT),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (FATAL, ABORT, FATAL, FATAL, FATAL, ABORT),
    ErrorCode.UNKNOWN_SERVER_ERROR: (FATAL, ABORT, FATAL, FATAL, FATAL, ABORT),
}


@pytest.mark.parametrize("code", TABLE, ids=lambda code: code.name)
def test_the_verdict_on_each_code(code: ErrorCode) -> None:
    error = broker_error(code, "transactional id t")
    assert tuple(judge(step, error) for step in (*REQUESTS, Step.PRODUCE)) == TABLE[code]


@pytest.mark.parametrize("step", REQUESTS)
@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ConnectionLostError("lost"), RETRY),
        (RequestTimedOutError("late"), RETRY),
        (ProtocolError("garbage"), RETRY),
        (UnsupportedVersionError("old"), FATAL),
        (AuthenticationFailedError("wrong password"), FATAL),
        (TokenProviderError("the provider raised"), RETRY),
    ],
    ids=str,
)
def test_the_verdict_without_a_code(step: Step, error: OttlaError, verdict: Verdict) -> None:
    assert judge(step, error) is verdict


def test_a_batch_that_was_given_up_aborts_its_transaction() -> None:
    assert judge(Step.PRODUCE, DeliveryTimedOutError("late")) is ABORT
    assert judge(Step.PRODUCE, ConnectionLostError("lost")) is ABORT


def test_the_most_severe_error_of_a_request_decides() -> None:
    def of(code: ErrorCode) -> BrokerError:
        return broker_error(code, code.name)

    untried = of(ErrorCode.OPERATION_NOT_ATTEMPTED)
    passing = of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    forbidden = of(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    fenced = of(ErrorCode.PRODUCER_FENCED)
    assert worst(Step.ADD, []) is None
    assert worst(Step.ADD, [untried]) is untried
    assert worst(Step.ADD, [untried, passing]) is passing
    assert worst(Step.ADD, [forbidden, passing, untried]) is forbidden
    assert worst(Step.ADD, [forbidden, fenced, passing]) is fenced


@pytest.mark.parametrize(
    ("error", "may_arrive"),
    [
        (ConnectionLostError("lost"), True),
        (RequestTimedOutError("late"), True),
        (ProtocolError("garbage"), True),
        (BrokerUnreachableError("no connection"), False),
        (NoBrokerAvailableError("none"), False),
        (broker_error(ErrorCode.CONCURRENT_TRANSACTIONS, "t"), False),
        (UnsupportedVersionError("old"), False),
    ],
    ids=str,
)
def test_a_request_that_was_sent_may_still_arrive(error: OttlaError, may_arrive: bool) -> None:
    assert is_unanswered(error) is may_arrive


def test_a_refusal_of_a_replaced_coordinator_is_doubtful() -> None:
    """It may have written the record, and the next coordinator reads it."""
    doubtful = {code for code in TABLE if is_doubtful(broker_error(code, "t"))}
    assert doubtful == {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
    assert not is_doubtful(BrokerUnreachableError("no connection"))


def test_only_missing_numbers_need_a_new_epoch() -> None:
    leaving = {verdict for verdict in Verdict if verdict.leaves_gap}
    assert leaving == {Verdict.ABORT_WITH_GAP, FORGOTTEN}
