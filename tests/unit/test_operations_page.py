"""Findings at startup and metrics in docs/operations.md name tests and metrics that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Recovery at startup")[1].split("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in SECTION.splitlines()
    if line.startswith("|")
][2:]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_table_is_parsed_completely() -> None:
    assert len(ROWS) > 30
    assert {len(row) for row in ROWS} == {3}


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:60] for row in ROWS])
def test_each_row_names_a_test_that_exists(row: list[str]) -> None:
    named = NAMED.findall(row[-1])
    assert named
    for file, test in named:
        assert test in functions_of(ROOT / "tests" / file), f"{file}::{test}"


@pytest.mark.parametrize(
    "suffix", [".deleted", ".cleaned", ".swap", "-delete", "-stray", "-future"]
)
def test_table_lists_every_kind_of_leftover(suffix: str) -> None:
    assert any(suffix in row[0] for row in ROWS)


def test_troubleshooting_names_metrics_that_exist() -> None:
    section = PAGE.split("## Troubleshooting")[1]
    named = re.findall(r"\bmetric `(\w+)`", section)
    listed = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert len(named) > 5
    assert [name for name in named if f"| `{name}` |" not in listed] == []
