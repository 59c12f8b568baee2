"""Every key and value survives Java's properties format: `broker.config.properties`."""

from hypothesis import given
from hypothesis import strategies as st

from broker.config.properties import format_properties, parse_properties
from broker.errors import ConfigError

# Characters that a single \u escape can represent; two surrogates would make another one.
CHARACTERS = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


@given(
    st.dictionaries(st.text(CHARACTERS, min_size=1), st.text(CHARACTERS)),
    st.sampled_from(["=", ":", " ", " = ", "\t:\f"]),
    st.sampled_from(["\n", "\r", "\r\n", "\n# a comment\n\n"]),
)
def test_escaped_properties_round_trip(
    properties: dict[str, str], separator: str, end_of_line: str
) -> None:
    text = "".join(
        f"{escaped(name)}{separator}{escaped(value)}{end_of_line}"
        for name, value in properties.items()
    )
    assert parse_properties(text) == properties


@given(st.text())
def test_any_text_is_read_or_refused_with_one_kind_of_error(text: str) -> None:
    try:
        parsed = parse_properties(text)
    except ConfigError:
        return
    assert len(parsed) <= len(text.splitlines())


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_written_properties_round_trip(properties: dict[str, str]) -> None:
    text = format_properties(properties)
    assert text.isascii()
    assert parse_properties(text) == properties
