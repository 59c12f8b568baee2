"""Interceptors change records one after the other; a fault in one changes nothing."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.records import TimestampType
from ottla.client.interceptor import (
    ConsumerInterceptor,
    ProducerInterceptor,
    ProducerRecord,
    intercept_acknowledgement,
    intercept_commit,
    intercept_consume,
    intercept_send,
)
from ottla.client.offset import CommittedOffset
from ottla.client.record import ConsumerRecord, RecordMetadata

SENT = ProducerRecord("t", "v", None, None, 1, ())
WRITTEN = RecordMetadata("t", 0, Offset(7), 1)
AT = {TopicPartition("t", 0): CommittedOffset(Offset(3))}


def fetched(value: Any, offset: int = 0) -> ConsumerRecord:
    kind, epoch = TimestampType.CREATE_TIME, LeaderEpoch(0)
    return ConsumerRecord("t", 0, Offset(offset), 1, None, value, (), kind, epoch)


class Marking(ProducerInterceptor, ConsumerInterceptor):
    """Adds its name to each value."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[object] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + self.name)

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        self.seen.append((metadata, error))

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        return [record._replace(value=record.value + self.name) for record in records]

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.seen.append(offsets)


def _raise(*_: object) -> Any:
    raise RuntimeError("the interceptor is broken")


def _cancelled(*_: object) -> Any:
    # As the result of a future that was cancelled.
    raise asyncio.CancelledError


_fail: Any = _raise
_fail_by_cancellation: Any = _cancelled


class Failing(ProducerInterceptor, ConsumerInterceptor):
    """Raises in every method."""

    on_send = on_acknowledgement = on_consume = on_commit = _fail


class Cancelled(ProducerInterceptor, ConsumerInterceptor):
    """Raises CancelledError in every method."""

    on_send = on_acknowledgement = on_consume = on_commit = _fail_by_cancellation


@pytest.mark.parametrize("failing", [Failing, Cancelled])
def test_each_sees_the_result_of_the_one_before_and_faults_are_skipped(
    caplog: pytest.LogCaptureFixture, failing: Callable[[], Any]
) -> None:
    first, last = Marking("1"), Marking("2")
    chain: list[Any] = [first, failing(), last]
    assert intercept_send(chain, SENT).value == "v12"
    assert [each.value for each in intercept_consume(chain, [fetched("a")])] == ["a12"]
    intercept_acknowledgement(chain, WRITTEN, None)
    intercept_commit(chain, AT)
    assert first.seen == last.seen == [(WRITTEN, None), AT]
    methods = [message.rpartition("method=")[2].split()[0] for message in caplog.messages]
    assert methods == ["on_send", "on_consume", "on_acknowledgement", "on_commit"]


def test_the_base_classes_change_nothing() -> None:
    assert intercept_send([ProducerInterceptor()], SENT) == SENT
    assert intercept_consume([ConsumerInterceptor()], [fetched("a")]) == [fetched("a")]
    intercept_acknowledgement([ProducerInterceptor()], None, ValueError())
    intercept_commit([ConsumerInterceptor()], AT)


class Returning(ConsumerInterceptor):
    """Returns a fixed result."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def on_consume(self, _: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        result: Sequence[ConsumerRecord] = self.result
        return result


@pytest.mark.parametrize(
    "result",
    [[], [fetched("x", 1)], [fetched("x"), fetched("y")], None, ["text"]],
    ids=["none", "another", "more", "nothing", "no-records"],
)
def test_a_result_of_other_records_is_ignored(result: object) -> None:
    given = [fetched("a")]
    assert intercept_consume([Returning(result)], given) == given
