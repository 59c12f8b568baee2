"""The verdict on a batch after an error."""

import pytest

from kafkawire.compression import Codec
from kafkawire.errors import ErrorCode
from kafkawire.ids import ProducerId
from ottla.client.client_config import ProducerConfig
from ottla.client.cluster_metadata import needs_metadata
from ottla.client.errors import (
    ConnectionLostError,
    OttlaError,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
    broker_error,
)
from ottla.client.producer.batch_verdict import Verdict, judge
from ottla.client.producer.producer_batch import ProducerBatch
from ottla.client.producer.producer_sequences import ProducerIdentity
from tests.unit.client.client_fakes import T0

CONFIG = ProducerConfig(retries=3, delivery_timeout_ms=10_000)


def batch_of(record_count: int, attempt_count: int = 1) -> ProducerBatch:
    batch = ProducerBatch(T0, Codec.NONE, reserved_bytes=1, created_at_s=100.0)
    batch.deliveries = [None] * record_count  # type: ignore[list-item]
    batch.attempt_count = attempt_count
    return batch


def refused(code: ErrorCode) -> OttlaError:
    return broker_error(code, "t-0")


@pytest.mark.parametrize(
    ("error", "records", "attempts", "retry_at_s", "verdict"),
    [
        pytest.param(ConnectionLostError("x"), 1, 1, 101, Verdict.RETRY, id="lost"),
        pytest.param(RequestTimedOutError("x"), 1, 1, 101, Verdict.RETRY, id="late response"),
        pytest.param(ProtocolError("x"), 1, 1, 101, Verdict.RETRY, id="garbled"),
        pytest.param(
            refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), 1, 1, 101, Verdict.RETRY, id="moved"
        ),
        pytest.param(refused(ErrorCode.INVALID_RECORD), 1, 1, 101, Verdict.FAIL, id="invalid"),
        pytest.param(UnsupportedVersionError("x"), 1, 1, 101, Verdict.FAIL, id="no version"),
        pytest.param(refused(ErrorCode.MESSAGE_TOO_LARGE), 2, 1, 101, Verdict.SPLIT, id="split"),
        pytest.param(refused(ErrorCode.MESSAGE_TOO_LARGE), 1, 1, 101, Verdict.FAIL, id="one"),
        pytest.param(ConnectionLostError("x"), 1, 3, 101, Verdict.RETRY, id="last retry"),
        pytest.param(ConnectionLostError("x"), 1, 4, 101, Verdict.FAIL, id="no retry left"),
        pytest.param(ConnectionLostError("x"), 1, 1, 110, Verdict.EXPIRE, id="too late"),
        pytest.param(refused(ErrorCode.INVALID_RECORD), 1, 1, 110, Verdict.FAIL, id="not late"),
    ],
)
def test_judge(
    error: OttlaError, records: int, attempts: int, retry_at_s: float, verdict: Verdict
) -> None:
    assert judge(error, batch_of(records, attempts), CONFIG, retry_at_s) is verdict


@pytest.mark.parametrize(
    ("code", "attempts", "retry_at_s", "verdict"),
    [
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1, 101, Verdict.RENUMBER),
        (ErrorCode.UNKNOWN_PRODUCER_ID, 1, 101, Verdict.RENUMBER),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 4, 101, Verdict.FAIL),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1, 110, Verdict.EXPIRE),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, 4, 110, Verdict.WRITTEN),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 1, 101, Verdict.FAIL),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, 101, Verdict.RETRY),
    ],
)
def test_judge_a_numbered_batch(
    code: ErrorCode, attempts: int, retry_at_s: float, verdict: Verdict
) -> None:
    batch = batch_of(1, attempts)
    batch.identify(ProducerIdentity(ProducerId(7), 0), base_sequence=0)
    assert judge(refused(code), batch, CONFIG, retry_at_s) is verdict


@pytest.mark.parametrize("code", list(ErrorCode))
def test_exactly_the_retriable_codes_of_kafka_are_retried(code: ErrorCode) -> None:
    verdict = judge(refused(code), batch_of(1), CONFIG, 101)
    assert (verdict is Verdict.RETRY) == code.retriable


def test_a_leader_that_may_have_moved_needs_fresh_metadata() -> None:
    assert needs_metadata(ConnectionLostError("x"))
    assert needs_metadata(refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert needs_metadata(refused(ErrorCode.FENCED_LEADER_EPOCH))
    assert not needs_metadata(refused(ErrorCode.INVALID_RECORD))
    assert not needs_metadata(refused(ErrorCode.NOT_ENOUGH_REPLICAS))


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_the_numbers_of_a_transaction_are_not_replaced(code: ErrorCode) -> None:
    config = ProducerConfig(enable_idempotence=True, transactional_id="orders")
    batch = batch_of(1)
    batch.identify(ProducerIdentity(ProducerId(7), 0), base_sequence=0)
    assert judge(refused(code), batch, config, 101) is Verdict.FAIL


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_the_numbers_of_a_part_that_may_be_written_are_not_replaced(code: ErrorCode) -> None:
    batch = batch_of(1)
    batch.identify(ProducerIdentity(ProducerId(7), 0), base_sequence=0)
    batch.may_be_written = True
    assert judge(refused(code), batch, CONFIG, 101) is Verdict.FAIL
