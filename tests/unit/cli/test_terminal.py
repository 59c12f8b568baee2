import json

import pytest

from ottla.cli import terminal
from ottla.cli.failure import complain
from ottla.cli.terminal import plain_table, print_json, print_line, print_table


def test_columns_are_aligned_with_numbers_on_the_right() -> None:
    lines = plain_table(("name", "count"), [("a", 5), ("longer", 1_000)])
    assert lines == ["name    count", "a           5", "longer   1000"]


def test_table_without_rows_is_its_header() -> None:
    assert plain_table(("a", "b"), []) == ["a  b"]


def test_numeric_text_is_aligned_like_text() -> None:
    assert plain_table(("key", "value"), [("a", "1"), ("b", "none")])[1] == "a    1"


def test_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("x", 1)])
    assert capsys.readouterr().out == "a  b\nx  1\n"


def test_terminal_gets_a_table_with_rules(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    print_table(("name", "count"), [("[bold]x[/bold]", 1)])
    written = capsys.readouterr().out
    assert "─" in written
    assert "[bold]x[/bold]" in written, "a topic's name is not interpreted as markup"


def test_a_name_between_colons_is_no_emoji_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    print_table(("group",), [("app:key:1",)])
    assert "app:key:1" in capsys.readouterr().out


@pytest.mark.parametrize("for_people", [True, False])
def test_control_characters_in_untrusted_names_are_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, for_people: bool
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda: for_people)
    hostile = "\x1b]0;mine\x07\x9b2J\u202e\n"
    print_table(("group",), [(hostile,)])
    print_line(hostile)
    complain(hostile)
    print_json({"group": hostile})
    written = capsys.readouterr()
    assert not set("\x1b\x07\x9b\u202e") & {*written.out, *written.err}
    assert r"\x1b]0;mine" in written.out
    assert r"\u001b]0;mine\u0007\u009b2J\u202e\n" in written.out
    assert written.err == r"ottla: \x1b]0;mine\x07\x9b2J\u202e\n" + "\n"


def test_json_output_is_one_readable_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "größe", "partitions": [1, None]})
    written = capsys.readouterr().out
    assert "größe" in written
    assert json.loads(written) == {"name": "größe", "partitions": [1, None]}
