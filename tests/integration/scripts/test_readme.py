"""Every block of code in the README runs, in order, as on the page."""

import sys
from pathlib import Path

from scripts.install_check.readme import blocks_of, run_readme

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
SCREEN_LINES = 110


def test_the_blocks_run(tmp_path: Path) -> None:
    assert run_readme(README, Path(sys.executable).parent, tmp_path) >= 7


def test_only_make_and_the_installation_are_left_out() -> None:
    shells = [block for block in blocks_of(README) if block.kind == "sh"]
    left_out = [
        line
        for block in shells
        for line in block.text.splitlines()
        if not any(line.startswith(kept) for kept in block.lines)
    ]
    assert [line.split("#")[0].strip() for line in left_out] == [
        "make demo",
        "make test",
        "pip install .",
    ]
    assert README.count("```") == 2 * len(blocks_of(README))


def test_the_page_is_short() -> None:
    assert len(README.splitlines()) <= SCREEN_LINES
