"""Syntax trees of source files, parsed once for all checks of a test module."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    """Release the trees at the end of the module that imports this fixture.

    Otherwise the garbage collector would visit their millions of nodes in all later tests.
    """
    yield
    tree_of.cache_clear()
