"""Bytes of records as text."""

import pytest

from ottla.console.records.payload import (
    MAX_DEPTH,
    MAX_PAGE_BYTES,
    MAX_SHOWN_BYTES,
    MIN_SHOWN_BYTES,
    Form,
    hex_dump,
    indented_json,
    payload_of,
    shown_bytes_of,
)

ORDER = b'{"id":1,"tags":["a",{"b":[]}],"none":{},"total":1.10}'


def test_json_has_a_line_per_member() -> None:
    shown = payload_of(ORDER)
    assert shown.form is Form.JSON
    assert shown.text.splitlines() == [
        *("{", '  "id": 1,', '  "tags": [', '    "a",', "    {", '      "b": []', "    }", "  ],"),
        *('  "none": {},', '  "total": 1.10', "}"),
    ]


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":2}', '{"big":123456789012345678901234567890e400}', r'{"q":"\"{[:,"}']
)
def test_json_keeps_every_token(text: str) -> None:
    indented = indented_json(text)
    assert indented is not None
    assert "".join(line.strip() for line in indented.splitlines()).replace('": ', '":') == text


def test_too_deep_json_stays_text() -> None:
    assert indented_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)) is None
    assert indented_json("[" * 100_000) is None
    assert payload_of(b"[1,").form is Form.TEXT


def test_json_whose_indentation_would_be_far_longer_than_itself_stays_text() -> None:
    depth = MAX_DEPTH - 1
    data = b"[" * depth + b"0," * 20_000 + b"0" + b"]" * depth
    assert payload_of(data).form is Form.TEXT
    assert payload_of(b"[" + b"0," * 20_000 + b"0]").form is Form.JSON


def test_payloads_are_cut_to_the_room_of_their_page() -> None:
    assert shown_bytes_of([MAX_SHOWN_BYTES] * 50) == MAX_SHOWN_BYTES
    assert shown_bytes_of([10] * 10_000) == MAX_SHOWN_BYTES
    for sizes in ([MAX_SHOWN_BYTES] * 400, [*[10] * 1_000, *[10**9] * 200]):
        most = shown_bytes_of(sizes)
        assert sum(min(size, most) for size in sizes) > MAX_PAGE_BYTES // 2 - 10_000
        assert sum(min(size, most) for size in sizes) <= MAX_PAGE_BYTES
    assert shown_bytes_of([10**9] * 10**5) == MIN_SHOWN_BYTES
    shown = payload_of(b"x" * 300, Form.AUTO, 200)
    assert (shown.text, shown.shown_bytes, shown.is_cut) == ("x" * 200, 200, True)


def test_text_shows_hidden_characters() -> None:
    shown = payload_of("a\x1bb\n\u202ec".encode())
    assert (shown.form, shown.text) == (Form.TEXT, "a\\x1bb\n\\u202ec")


def test_other_bytes_are_hexadecimal() -> None:
    assert payload_of(b"\xff\x00A").form is Form.HEX
    assert hex_dump(b"\xff\x00A") == "00000000  ff 00 41" + " " * 39 + "  ..A"
    assert hex_dump(bytes(17)).splitlines()[1].startswith("00000010  00 ")


def test_wanted_form_is_used_if_it_can_show_the_bytes() -> None:
    assert payload_of(ORDER, Form.TEXT).text == ORDER.decode()
    assert payload_of(b"7b", Form.HEX).form is Form.HEX
    assert payload_of(b'"text"', Form.JSON).form is Form.JSON
    assert payload_of(b"plain", Form.JSON).form is Form.TEXT
    assert payload_of(b"\xff", Form.TEXT).text == "\\xff"
    assert payload_of(b"\xff", Form.JSON).form is Form.HEX


def test_null_is_not_an_empty_value() -> None:
    assert payload_of(None).is_null
    assert not payload_of(b"").is_null


def test_long_payload_is_cut_even_within_a_character() -> None:
    data = b"x" * (MAX_SHOWN_BYTES - 1) + "\u20ac".encode() + b"rest"
    shown = payload_of(data)
    assert (shown.is_cut, shown.form, len(shown.text)) == (True, Form.TEXT, MAX_SHOWN_BYTES - 1)
    assert shown.size_bytes == len(data)


def test_preview_is_one_short_line() -> None:
    assert payload_of(b"a\n  b").preview == "a b"
    assert payload_of(b"x" * 500).preview == "x" * 160 + "\u2026"
