import io
import sys

import pytest

from ottla.cli.transfer import Transfer


def test_transfer_has_a_summary_line_and_a_json_form() -> None:
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


def test_progress_bar_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # A dumb terminal, as in an editor, cannot draw it.
    monkeypatch.setenv("TERM", "xterm")
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        monkeypatch.setattr(sys, "stderr", stream)
        with Transfer("sent", total_bytes=100) as transfer:
            transfer.advance(100)
    assert "sent" in terminal.getvalue()
    assert pipe.getvalue() == ""
