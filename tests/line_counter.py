"""Edge: counts which lines of our packages run, at the cost of a list item per statement.

Coverage's tracer slows down all code of a process, also code that it does not measure. Here our
modules are compiled with a mark before each statement instead, and `coverage report` reads which
marks were set. With `OTTLA_TEST_COUNTED` in the environment, an import of this module starts that,
for all of our modules imported later.
"""

import ast
import importlib.util
import itertools
import marshal
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from scripts.decision_modules import PACKAGES, ROOT

VARIABLE: Final = "OTTLA_TEST_COUNTED"
IS_ON: Final = bool(os.environ.get(VARIABLE))
_MARKS: Final = "_lines_that_ran_"
"""The name of a module's marks in its code. The mark at index N says whether line N ran."""
_CHANGED_NS: Final = Path(__file__).stat().st_mtime_ns
_marks: dict[str, list[bool]] = {}
_modules: list[tuple[dict[str, Any], list[bool]]] = []
_discarded: list[bool] = []


@contextmanager
def paused() -> Iterator[None]:
    """Count no lines in the meantime."""
    _discarded[:] = [False] * max(map(len, _marks.values()), default=0)
    before = _modules.copy()
    for names, _ in before:
        names[_MARKS] = _discarded
    try:
        yield
    finally:
        for names, marks in before:
            names[_MARKS] = marks


def save() -> None:
    """Write the lines that ran in this process, for `coverage report`."""
    from coverage import CoverageData

    ours = [str(path) for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    data = CoverageData(str(ROOT / ".coverage"), suffix=True)
    data.add_lines(
        {path: [line for line, ran in enumerate(_marks.get(path, ())) if ran] for path in ours}
    )
    # The report contains also modules that nothing imports.
    data.touch_files(ours)
    data.write()


def register(path: str, line_count: int, names: dict[str, Any]) -> list[bool]:
    """Return the marks of a module that is about to run, given its global names."""
    marks = _marks.setdefault(path, [False] * (line_count + 1))
    _modules.append((names, marks))
    return marks


def marked(source: bytes, path: str) -> ast.Module:
    """Return the syntax tree of a module, with a mark before each statement."""
    tree = ast.parse(source)
    line_count = len(source.splitlines())
    start = ast.parse(
        f"from tests.line_counter import register as {_MARKS}\n"
        f"{_MARKS} = {_MARKS}({path!r}, {line_count}, globals())"
    )
    nodes = list(ast.walk(tree))
    for node in nodes:
        for _, field in ast.iter_fields(node):
            if isinstance(field, list) and field and isinstance(field[0], ast.stmt):
                field[:] = _marked_block(field, start.body if node is tree else [])
    for node in nodes:
        if isinstance(node, ast.Try | ast.TryStar):
            _mark_clauses(node.handlers, [handler.lineno for handler in node.handlers])
        if isinstance(node, ast.Match):
            _mark_clauses(node.cases, [case.pattern.lineno for case in node.cases])
    return ast.fix_missing_locations(tree)


def _marked_block(block: Sequence[ast.stmt], start: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    first = list(itertools.takewhile(_must_be_first, block))
    yield from first
    yield from start
    yield from (_mark(statement.lineno) for statement in first)
    for statement in block[len(first) :]:
        yield from (_mark(each.lineno) for each in getattr(statement, "decorator_list", ()))
        yield _mark(statement.lineno)
        yield statement


def _must_be_first(statement: ast.stmt) -> bool:
    """Whether the statement is a docstring or an import from `__future__`."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _mark_clauses(
    clauses: Sequence[ast.ExceptHandler | ast.match_case], lines: Sequence[int]
) -> None:
    """Mark the line of each chosen `except` or `case`, and the lines of those tried before it."""
    for place, clause in enumerate(clauses, 1):
        clause.body[:0] = [_mark(line) for line in lines[:place]]


def _mark(line: int) -> ast.stmt:
    place = ast.Subscript(ast.Name(_MARKS, ast.Load()), ast.Constant(line), ast.Store())
    return ast.Assign([place], ast.Constant(True))


class _Loader(SourceFileLoader):
    """Loads modules with marks, and keeps their bytecode beside Python's."""

    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.get_filename(fullname))
        state = f"{path} {path.stat().st_mtime_ns} {_CHANGED_NS}".encode()
        cached = Path(importlib.util.cache_from_source(path, optimization="counted"))
        with suppress(FileNotFoundError):
            of_state, _, bytecode = cached.read_bytes().partition(b"\0")
            if of_state == state:
                return _code(marshal.loads(bytecode))
        code = _code(compile(marked(path.read_bytes(), str(path)), path, "exec", dont_inherit=True))
        cached.parent.mkdir(exist_ok=True)
        unfinished = cached.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(state + b"\0" + marshal.dumps(code))
        unfinished.replace(cached)
        return code


def _code(compiled: object) -> CodeType:
    assert isinstance(compiled, CodeType)
    return compiled


class _Finder:
    """Finds our modules where the interpreter does, with the loader above."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.get_filename(name))
        return spec


if IS_ON:
    sys.meta_path.insert(0, _Finder())
