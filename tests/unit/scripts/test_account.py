"""The demo's account: acknowledged records, records read, and the length of the pause."""

from kafkawire.ids import TopicPartition
from scripts.demo.account import Account, Acknowledged

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_acknowledged_record_must_be_read_once_at_its_offset() -> None:
    account = Account(acknowledged=[Acknowledged(A, 0, b"x", 0.0), Acknowledged(A, 1, b"y", 0.0)])
    account.reads[A, 0, b"x"] = 1
    account.reads[A, 2, b"y"] = 1
    assert account.missing() == [account.acknowledged[1]]
    account.reads[A, 1, b"y"] = 2
    assert (account.missing(), account.repeated()) == ([], [account.acknowledged[1]])
    assert account.duplicate_count() == 1


def test_pause_is_the_longest_gap_that_ends_after_the_kill() -> None:
    times = {A: [0.0, 5.0, 5.1, 5.5, 5.6], B: [0.0, 9.0]}
    account = Account(
        acknowledged=[
            Acknowledged(where, 0, b"", at_s) for where, many in times.items() for at_s in many
        ]
    )
    assert round(account.pause_s({A}, since_s=5.2), 3) == 0.4
    assert account.pause_s(set(), since_s=0.0) == 0.0
