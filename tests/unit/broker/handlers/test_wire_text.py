import pytest

from broker.handlers.wire_text import wire_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größe 🎉\n", "größe 🎉\n"),
        ("a\udcffb", r"a\udcffb"),
        ("\ud800", r"\ud800"),
    ],
)
def test_half_of_a_surrogate_pair_is_escaped(text: str, shown: str) -> None:
    assert wire_text(text) == shown
