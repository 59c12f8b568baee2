"""The structure of the product: imports, inheritance and prose."""

import ast
import functools
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from scripts.decision_modules import PACKAGES
from scripts.prose import PLACES, files, hits_in

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
}
SERVER = {"broker", "controller", "clusterstate", "coordination", "storage"}
# PySpark looks for the method that only the subclass has.
INHERITED_ONCE = {"analytics.data_source.SegmentReader"}


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imports() -> dict[str, set[str]]:
    """Return the modules of ours that each module imports, also inside functions."""
    found: dict[str, set[str]] = {}
    for name, tree in trees().items():
        found[name] = {
            f"{node.module}.{alias.name}"
            if f"{node.module}.{alias.name}" in MODULES
            else node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        } & MODULES.keys() - {name}
    return found


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that reach each other, by depth-first search (Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for imported in graph[module]:
            if imported not in order:
                visit(imported)
            if imported in stack:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == order[module]:
            position = stack.index(module)
            if len(stack) - position > 1:
                found.append(sorted(stack[position:]))
            del stack[position:]

    for module in graph:
        if module not in order:
            visit(module)
    return found


def bases_by_class() -> dict[str, list[str]]:
    """Return the full names of the bases of each class, by its full name."""
    found: dict[str, list[str]] = {}
    for module, tree in trees().items():
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        names = {node.name: f"{module}.{node.name}" for node in classes}
        names |= {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in classes:
            bases = [ast.unparse(base).split("[")[0] for base in node.bases]
            found[f"{module}.{node.name}"] = [names.get(base, base) for base in bases]
    return found


def test_search_finds_a_cycle() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert cycles(graph) == [["b", "c"]]


def test_no_modules_import_each_other() -> None:
    graph = imports()
    assert sum(map(len, graph.values())) > len(graph), "hardly any import was found"
    assert cycles(graph) == []


def test_no_class_is_inherited_by_a_single_other_one() -> None:
    """A class that is inherited once is one object in two places: compose it instead.

    Protocols, which have few implementations by nature, and exceptions are exempt.
    """
    bases = bases_by_class()
    heirs = defaultdict(list)
    for name in bases:
        for base in bases[name]:
            heirs[base].append(name)
    once = {
        name: heirs[name]
        for name in bases
        if len(heirs[name]) == 1
        and "typing.Protocol" not in bases[name]
        and not name.endswith(("Error", "Exception"))
    }
    assert len(heirs) > 20, "hardly any class was found"
    assert once.keys() == INHERITED_ONCE, once


def test_modules_of_the_server_have_names_of_their_own() -> None:
    names = Counter(
        name.rpartition(".")[2]
        for name, path in MODULES.items()
        # A handler has the name of its messages.
        if name.partition(".")[0] in SERVER
        and path.parent.name != "handlers"
        and path.name != "__init__.py"
    )
    shared = {name for name, count in names.items() if count > 1}
    assert shared <= {"__main__", "daemon", "errors"}


def test_prose_follows_the_rules() -> None:
    """`python -m scripts.prose` prints the same hits."""
    assert [str(hit) for path in files(list(PLACES)) for hit in hits_in(path)] == []
