"""A data batch must continue the epoch and the sequences of its producer."""

import pytest

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


@pytest.mark.parametrize(
    ("leader_epoch", "severity"),
    [
        pytest.param(0, Severity.ERROR, id="same leader"),
        pytest.param(1, Severity.WARNING, id="later leader, whose log may begin behind the batch"),
    ],
)
def test_a_batch_appended_again_is_certainly_wrong_only_under_one_leader(
    leader_epoch: int, severity: Severity
) -> None:
    reported, replay = Reported(), ProducerReplay()
    replay.on_batch(sound(data(0)))
    check = SequenceCheck("t", 0, WholeLog(), FIRST_TIMESTAMP_MS, reported)
    check.check_batch(replay.producers[PRODUCER_ID], sound(data(1, leader_epoch=leader_epoch)))
    (finding,) = reported.findings
    assert (finding.damage, finding.severity) == (Damage.SEQUENCE_BROKEN, severity)


def test_a_skipped_sequence_is_an_error_under_a_later_leader_too() -> None:
    reported, replay = Reported(), ProducerReplay()
    replay.on_batch(sound(data(0)))
    check = SequenceCheck("t", 0, WholeLog(), FIRST_TIMESTAMP_MS, reported)
    check.check_batch(replay.producers[PRODUCER_ID], sound(data(1, sequence=2, leader_epoch=1)))
    (finding,) = reported.findings
    assert (finding.damage, finding.severity) == (Damage.SEQUENCE_BROKEN, Severity.ERROR)
