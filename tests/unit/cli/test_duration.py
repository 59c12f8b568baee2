"""Durations are parsed in short and in ISO 8601 form."""

import pytest

from ottla.cli.duration import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2D", 172_800_000),
        ("1w", 604_800_000),
        ("250ms", 250),
        ("PT1H30M", 5_400_000),
        ("P1DT2S", 86_402_000),
        ("pt0s", 0),
    ],
)
def test_a_duration_is_parsed(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "5", "1x", "h", "P", "PT", "P1", "-1s", "1.5h", "1h 2m"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["9" * 13 + "s", "9" * 5_000 + "s", "9" * 12 + "w"])
def test_a_duration_beyond_all_times_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than"):
        parse_duration_ms(text)
