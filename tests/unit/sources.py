"""Syntax trees of source files, parsed once for all checks of a test module."""

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a Python file."""
    return tuple(ast.walk(tree_of(path)))


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    """Release the trees at the end of the module that imports this fixture.

    Otherwise the garbage collector would visit their millions of nodes in all later tests. It does
    not run while the trees exist, either.
    """
    gc.disable()
    yield
    tree_of.cache_clear()
    nodes_of.cache_clear()
    gc.enable()
