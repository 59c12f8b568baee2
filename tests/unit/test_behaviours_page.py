"""Every row of docs/behaviours.md and docs/zookeeper-clients.md names a test that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "behaviours.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "::" in line]
ZNODES = (ROOT / "docs" / "zookeeper-clients.md").read_text(encoding="utf-8").splitlines()
PROOFS = [line for line in ZNODES if line.startswith("| ") and ".py" in line]
"""Rows with one or more tests; a name without a file is in the file before it."""
LEAST_PROOFS = 40
FILE_OR_TEST = re.compile(r"`([\w/]+\.py)?(?:::(test_\w+))?`")
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


def test_all_traps_of_clients_on_znodes_have_a_row() -> None:
    assert len(PROOFS) > LEAST_PROOFS
    numbers: set[int] = set()
    for row in PROOFS:
        if found := re.match(r"\| (\d+)(?:-(\d+))? \|", row):
            numbers |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    assert numbers == set(range(1, 40))


@pytest.mark.parametrize("row", PROOFS, ids=[row[2:62] for row in PROOFS])
def test_each_proof_of_clients_on_znodes_names_a_test_that_exists(row: str) -> None:
    file = None
    for path, test in FILE_OR_TEST.findall(row):
        file = ROOT / "tests" / path if path else file
        if file is None:
            continue
        assert file.exists(), file
        assert not test or test in functions_of(file), f"{file}::{test}"
    assert file is not None
