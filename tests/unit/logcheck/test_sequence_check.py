"""A data batch must not go back to an older epoch of its producer."""

from logcheck.finding import Damage, Severity
from logcheck.producer_replay import ProducerReplay, WholeLog
from logcheck.sequence_check import SequenceCheck
from tests.unit.logcheck.partition_bytes import FIRST_TIMESTAMP_MS, Reported
from tests.unit.logcheck.producer_bytes import PRODUCER_ID, data, sound


def test_data_of_an_older_epoch_below_the_start_of_the_replay_is_not_reported() -> None:
    reported, replay = Reported(), ProducerReplay()
    replay.on_batch(sound(data(0, epoch=2)))
    check = SequenceCheck("t", 1, WholeLog(), FIRST_TIMESTAMP_MS, reported)
    check.check_batch(replay.producers[PRODUCER_ID], sound(data(1, sequence=1, epoch=1)))
    assert not reported.findings


def test_data_of_an_older_epoch_is_reported() -> None:
    reported, replay = Reported(), ProducerReplay()
    replay.on_batch(sound(data(0, epoch=2)))
    check = SequenceCheck("t", 0, WholeLog(), FIRST_TIMESTAMP_MS, reported)
    check.check_batch(replay.producers[PRODUCER_ID], sound(data(1, sequence=1, epoch=1)))
    (finding,) = reported.findings
    assert (finding.damage, finding.offset) == (Damage.PRODUCER_EPOCH_BACK, 1)
    assert finding.severity is Severity.ERROR
    assert finding.text == "expected epoch 2 of producer 7 or later, found epoch 1"
