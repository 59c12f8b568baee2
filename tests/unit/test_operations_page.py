"""The operations page says what tests prove."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations.md"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:unit|property|integration)/[\w/]+\.py)::(\w+)`", PAGE.read_text())
    assert len(named) > 20, "hardly any was found, so this proves nothing"
    missing = [
        f"{path}::{name}"
        for path, name in named
        if name
        not in {
            node.name
            for node in ast.parse((ROOT / "tests" / path).read_text()).body
            if isinstance(node, ast.FunctionDef)
        }
    ]
    assert missing == []
