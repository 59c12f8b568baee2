"""PEM on a single line: `trust.pem`."""

import pytest

from trust.pem import normalised

BLOCK = "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 16 + "\nREVG\n-----END PRIVATE KEY-----\n"


def test_a_block_on_one_line_gets_lines() -> None:
    assert normalised(BLOCK.replace("\n", " ")) == BLOCK
    assert normalised(BLOCK.replace("\n", "")) == BLOCK


def test_text_between_blocks_is_left_out() -> None:
    assert normalised(f"Bag Attributes\n{BLOCK}subject=x\n{BLOCK}") == BLOCK + BLOCK


@pytest.mark.parametrize(
    "text",
    ["", "s3cret", "-----BEGIN A-----s3cret-----END B-----", BLOCK.replace("REVG", "REV")],
)
def test_other_text_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"no PEM block|not base64") as caught:
        normalised(text)
    assert "s3cret" not in str(caught.value)
