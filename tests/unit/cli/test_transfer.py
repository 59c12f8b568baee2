import io
import sys

import pytest

from ottla.cli.transfer import Transfer


def test_a_transfer_is_told_in_one_line_and_in_json() -> None:
    with Transfer("sent") as transfer:
        transfer.add(2, 10)
        transfer.add(1, 5)
        transfer.advance(15)
    transfer.seconds = 0.5
    assert transfer.to_line() == "sent 3 records, 15 B in 0.50 s: 6 records/s, 0.0 MB/s"
    assert transfer.to_json() == {
        "records": 3,
        "bytes": 15,
        "seconds": 0.5,
        "records_per_s": 6,
        "bytes_per_s": 30,
    }


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_drawn_for_a_person_only(monkeypatch: pytest.MonkeyPatch) -> None:
    person, program = Terminal(), io.StringIO()
    for stream in (person, program):
        monkeypatch.setattr(sys, "stderr", stream)
        with Transfer("sent", total_bytes=100) as transfer:
            transfer.advance(100)
    assert "sent" in person.getvalue()
    assert program.getvalue() == ""
