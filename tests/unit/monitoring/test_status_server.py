"""The turns of the event loop in which a page of metrics is made."""

import pytest

from monitoring.status_server import TURN_BYTES, ends_turn


@pytest.mark.parametrize(
    ("piece", "size_bytes", "ends"),
    [
        pytest.param("", 0, True, id="a step without text"),
        pytest.param("small", 5, False, id="small pieces share a turn"),
        pytest.param("last", TURN_BYTES, True, id="enough text"),
    ],
)
def test_a_turn_ends_after_enough_text_or_a_step_without_any(
    piece: str, size_bytes: int, ends: bool
) -> None:
    assert ends_turn(piece, size_bytes) is ends
