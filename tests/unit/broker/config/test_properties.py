"""Java's format of properties files: `broker.config.properties`."""

import pytest

from broker.config.properties import parse_overrides, parse_properties
from broker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a=1\nb = 2\n", {"a": "1", "b": "2"}, id="equals"),
        pytest.param("a:1\nb : 2", {"a": "1", "b": "2"}, id="colon"),
        pytest.param("a 1\nb\t \f2", {"a": "1", "b": "2"}, id="blank"),
        pytest.param("a = = b", {"a": "= b"}, id="only the first separator counts"),
        pytest.param("a", {"a": ""}, id="a key alone has an empty value"),
        pytest.param("a=1 ", {"a": "1 "}, id="blanks at the end belong to the value"),
        pytest.param("  # no\n! no\n\n \t\na=1#yes", {"a": "1#yes"}, id="comments"),
        pytest.param("a=1\na=2", {"a": "2"}, id="the last one wins"),
        pytest.param("a=1,\\\n    2,\\\r\n\t3", {"a": "1,2,3"}, id="continued lines"),
        pytest.param("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}, id="an escaped backslash ends"),
        pytest.param("a=1\\\n# kept", {"a": "1# kept"}, id="no comment in a continuation"),
        pytest.param("a=1\\", {"a": "1"}, id="a continuation at the end of the file"),
        pytest.param("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}, id="escaped separators"),
        pytest.param(r"a=\t\n\r\f\z\"", {"a": '\t\n\r\fz"'}, id="escapes"),
        pytest.param(r"a=\u00e9\u20AC", {"a": "é€"}, id="unicode escapes"),
        pytest.param("a=1\rb=2", {"a": "1", "b": "2"}, id="carriage returns end lines"),
        pytest.param("a=1\u2028b=2", {"a": "1\u2028b=2"}, id="other separators do not"),
        pytest.param("", {}, id="nothing"),
    ],
)
def test_a_file_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4"])
def test_a_broken_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties(text)


def test_overrides_split_at_the_first_equals_sign() -> None:
    overrides = ["a=1", " b = x=y ", "c="]
    assert parse_overrides(overrides) == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize("override", ["a", "=1", " =1"])
def test_an_override_needs_a_key_and_an_equals_sign(override: str) -> None:
    with pytest.raises(ConfigError, match="must have the form key=value"):
        parse_overrides([override])
