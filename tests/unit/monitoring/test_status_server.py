"""The turns in which a page of metrics is made, and names on which nothing can listen."""

import pytest

from monitoring.status_server import (
    SENT_TURN_BYTES,
    TURN_BYTES,
    StatusServer,
    ends_turn,
    sent_turns,
)


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


@pytest.mark.parametrize("host", ["\u202ehost", "unknown.invalid"])
async def test_a_name_that_no_resolver_knows_is_an_error_of_the_system(host: str) -> None:
    with pytest.raises(OSError, match=f"cannot listen on {host}:0"):
        await StatusServer(host, 0, {}).start()


def test_a_long_page_is_sent_in_turns() -> None:
    half, small = b"x" * (SENT_TURN_BYTES // 2), b"y"
    assert list(sent_turns([half, half, half, small])) == [[half, half], [half, small]]
    assert not list(sent_turns([]))
