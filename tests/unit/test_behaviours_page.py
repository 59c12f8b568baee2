"""Every row of docs/behaviours.md names a test that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "behaviours.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "::" in line]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
LEAST = 40


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_page_is_parsed_completely() -> None:
    assert len(ROWS) > LEAST


@pytest.mark.parametrize("row", ROWS, ids=[row[2:62] for row in ROWS])
def test_each_row_names_a_test_that_exists(row: str) -> None:
    [(file, test)] = NAMED.findall(row)
    assert test in functions_of(ROOT / "tests" / file), f"{file}::{test}"
