"""A running broker deletes expired records, and reports the log start offset to consumers."""

from kafkawire.errors import ErrorCode
from tests.conftest import StartBroker
from tests.integration.broker.wire import Wire, batch

AT_ONCE = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "20",
    "log.flush.start.offset.checkpoint.interval.ms": "20",
}


def test_expired_records_are_deleted_and_the_log_end_stays(start_broker: StartBroker) -> None:
    broker = start_broker(overrides=AT_ONCE)
    with Wire(broker.port) as wire:
        wire.create_topic("t", retention_ms="1000", file_delete_delay_ms="0")
        # The records have timestamps of 2023.
        for value in (b"a", b"b"):
            wire.produce("t", batch(value))
        broker.wait_for_event("log.expired", where=lambda event: event["log_start_offset"] == 2)
        gone = wire.fetch("t", 0)
        assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        at_end = wire.fetch("t", 2)
        assert (at_end.error_code, at_end.log_start_offset) == (ErrorCode.NONE, 2)
        assert wire.produce("t", batch(b"c")).base_offset == 2
    broker.kill()
    again = start_broker(broker.data_dir)
    with Wire(again.port) as wire:
        # The log start offset never decreases, even after a crash.
        assert wire.fetch("t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
