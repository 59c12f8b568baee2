import json

import pytest

from ottla.cli import terminal
from ottla.cli.terminal import plain_table, print_json, print_table


def test_columns_are_aligned_and_numbers_stand_at_the_right() -> None:
    lines = plain_table(("name", "count"), [("a", 5), ("longer", 1_000)])
    assert lines == ["name    count", "a           5", "longer   1000"]


def test_a_table_without_rows_is_its_head() -> None:
    assert plain_table(("a", "b"), []) == ["a  b"]


def test_text_that_looks_like_a_number_is_text() -> None:
    assert plain_table(("key", "value"), [("a", "1"), ("b", "none")])[1] == "a    1"


def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("x", 1)])
    assert capsys.readouterr().out == "a  b\nx  1\n"


def test_a_terminal_gets_a_table_with_rules(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    print_table(("name", "count"), [("[bold]x[/bold]", 1)])
    written = capsys.readouterr().out
    assert "─" in written
    assert "[bold]x[/bold]" in written, "what a topic is called is no markup"


def test_json_is_one_readable_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "größe", "partitions": [1, None]})
    written = capsys.readouterr().out
    assert "größe" in written
    assert json.loads(written) == {"name": "größe", "partitions": [1, None]}
