"""The compiled modules are used only if they match the sources."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from speedups import finder
from speedups.modules import (
    GROUPS,
    READ,
    folder_name,
    library_name,
    module_names,
    sources_state,
)

ROOT = Path(__file__).resolve().parents[3]
SUFFIX = EXTENSION_SUFFIXES[0]
HOT = [name for group in GROUPS for name in module_names(group)]
GUARDED = {"storage.segment.index_file.PagedFile", "storage.segment.log_file.LogFile"}
"""Classes with a destructor.

Two threads use an attribute that may hold one, or its last owner, only under a lock.
"""
# Prints whether a process may import binaries, and the file of an imported module.
REPORT = """
import sys
import speedups.finder as finder
print(finder.enable(), finder.is_enabled())
import storage.log.log
print(storage.log.log.__file__)
"""


def make_tree(root: Path) -> Path:
    """Create sources and binaries; return the folder of the binaries."""
    for package in READ:
        (root / package).mkdir()
        (root / package / "source.py").write_text(f"NAME = {package!r}\n")
    here = root / "speedups"
    state = sources_state(root)
    for group in GROUPS:
        touch(here / f"{library_name(group, state).removeprefix('speedups.')}{SUFFIX}")
    for name in HOT:
        touch(binary(here, state, name))
    return here


def binary(here: Path, state: str, name: str) -> Path:
    """Return the path of a compiled module."""
    return here / folder_name(state) / f"{name.replace('.', '/')}{SUFFIX}"


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_binaries_of_the_current_sources_are_found(tmp_path: Path) -> None:
    here = make_tree(tmp_path)
    files = finder.built_files(here)
    assert files is not None
    assert sorted(files) == sorted(HOT)
    assert all(file.exists() for file in files.values())


@pytest.mark.parametrize("package", READ)
def test_change_of_any_source_invalidates_all_binaries(tmp_path: Path, package: str) -> None:
    here = make_tree(tmp_path)
    (tmp_path / package / "source.py").write_text("NAME = 'another'\n")
    assert finder.built_files(here) is None


def test_additional_source_invalidates_all_binaries(tmp_path: Path) -> None:
    here = make_tree(tmp_path)
    (tmp_path / READ[0] / "more.py").write_text("NAME = 'one more'\n")
    assert finder.built_files(here) is None


def test_missing_binary_disables_all_others(tmp_path: Path) -> None:
    here = make_tree(tmp_path)
    binary(here, sources_state(tmp_path), HOT[-1]).unlink()
    assert finder.built_files(here) is None


def test_finder_finds_only_its_modules(tmp_path: Path) -> None:
    file, gone = tmp_path / f"log{SUFFIX}", tmp_path / f"segment{SUFFIX}"
    file.touch()
    found = finder.Finder({"storage.log.log": file, "storage.segment.segment": gone})
    spec = found.find_spec("storage.log.log")
    assert spec is not None
    assert spec.origin == str(file)
    assert found.find_spec("storage.other") is None
    assert found.find_spec("storage.segment.segment") is None


def test_enable_fails_once_a_source_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: None)
    monkeypatch.setattr(finder, "built_files", lambda _here: {"sys": Path("sys")})
    assert not finder.enable()


def test_process_enables_the_binaries_if_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: None)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(finder, "built_files", lambda _here: {"storage.unknown": Path("unknown")})
    was_enabled = finder.is_enabled()
    assert finder.enable()
    assert finder.is_enabled()
    del sys.meta_path[0]
    assert finder.is_enabled() == was_enabled


def test_traced_process_imports_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: print)
    monkeypatch.setattr(finder, "built_files", lambda _here: {})
    assert not finder.enable()


def report(**environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT], cwd=ROOT, env=environment, capture_output=True, check=True
    )
    return done.stdout.decode().splitlines()


@pytest.mark.skipif(not finder.are_built(), reason="not built of these sources")
def test_process_runs_the_binaries() -> None:
    told, path = report()
    assert told == "True True"
    assert Path(path) == binary(ROOT / "speedups", sources_state(ROOT), "storage.log.log")


def test_environment_disables_the_binaries() -> None:
    told, path = report(OTTLA_PURE_PYTHON="1")
    assert told == "False False"
    assert Path(path) == ROOT / "storage" / "log" / "log.py"


@pytest.mark.parametrize("name", HOT)
def test_compiled_modules_import_only_tracked_packages(name: str) -> None:
    """The compiler inlines constants of imported modules, so the state must cover these too."""
    tree = ast.parse((ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    imported = {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert imported & ours <= set(READ)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and nested statements that a module runs when it is imported."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for part in ("body", "orelse", "finalbody"):
                yield from statements(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from statements(handler.body)


def bound_names(node: ast.stmt) -> set[str]:
    """Return the names that a statement itself binds, without nested statements."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {
        name.id
        for target in targets
        if target
        for name in ast.walk(target)
        if type(name) is ast.Name
    }


def is_final(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith("Final")


def doubtful_constants(source: str) -> list[str]:
    """Return the constants that may differ at run time from the compiler's value."""
    tree = ast.parse(source)
    always = {id(node) for node in tree.body}
    found = list(statements(tree.body))
    times = Counter(name for node in found for name in bound_names(node))
    changed = {
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    }
    return [
        name
        for node in found
        if is_final(node)
        for name in bound_names(node)
        if id(node) not in always or times[name] > 1 or name in changed
    ]


@pytest.mark.parametrize(
    "source",
    [
        "if TYPE_CHECKING:\n    FAST: Final[bool] = False\nelse:\n    FAST = True",
        "try:\n    import fast\nexcept ImportError:\n    FAST: Final = False",
        "FAST: Final = False\nFAST = True",
        "FAST: Final = False\nfor FAST in (True,):\n    pass",
        "FAST: Final = False\ndef f():\n    global FAST\n    FAST = True",
    ],
)
def test_a_doubtful_constant_is_found(source: str) -> None:
    assert doubtful_constants(source) == ["FAST"]


def test_a_constant_has_one_value_everywhere() -> None:
    """The compiler writes a `Final` literal into each compiled module that imports it."""
    sources = [path for package in READ for path in sorted((ROOT / package).rglob("*.py"))]
    assert any(is_final(node) for path in sources for node in statements(tree_of(path).body))
    doubtful = {
        str(path.relative_to(ROOT)): names
        for path in sources
        if (names := doubtful_constants(path.read_text(encoding="utf-8")))
    }
    assert doubtful == {}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def foldable(source: str) -> list[str]:
    """Return the code that a compiler evaluates at compile time, and Python at run time.

    The compiler substitutes its own values for type checking, version and platform, and drops dead
    branches. Fixed-width integers wrap, while Python's grow.
    """
    tree = ast.parse(source)
    found = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("sys.platform", "sys.version_info", "os.name")
    ]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found += [
        f"{node.module}.{alias.name}"
        for node in imports
        for alias in node.names
        if node.module == "mypy_extensions"
        or (node.module, alias.name) in {("sys", "platform"), ("sys", "version_info")}
    ]
    for node in ast.walk(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            continue
        only_names = all(isinstance(each, ast.Import | ast.ImportFrom) for each in node.body)
        if node.orelse or not only_names or ast.unparse(node.test) != "TYPE_CHECKING":
            found.append(f"if {ast.unparse(node.test)}")
    return found


@pytest.mark.parametrize(
    "source",
    [
        "if TYPE_CHECKING:\n    from slow import f\nelse:\n    from fast import f",
        "if TYPE_CHECKING:\n    SPEED = 1",
        "if not TYPE_CHECKING:\n    from fast import f",
        "import sys\nif sys.platform == 'win32':\n    pass",
        "x = 1 if sys.version_info >= (3, 12) else 2",
        "from mypy_extensions import i64",
    ],
)
def test_code_that_a_compiler_folds_is_found(source: str) -> None:
    assert foldable(source)


def test_compiled_modules_contain_no_code_that_a_compiler_folds() -> None:
    found = {
        name: folded
        for name in HOT
        if (folded := foldable((ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")))
    }
    assert found == {}


def test_destructors_of_compiled_modules_are_known() -> None:
    """A compiled attribute still shows its old value while the destructor of that value runs."""
    found = {
        f"{name}.{node.name}"
        for name in HOT
        for node in ast.walk(tree_of(ROOT / f"{name.replace('.', '/')}.py"))
        if isinstance(node, ast.ClassDef) and "__del__" in map(_name, node.body)
    }
    assert found == GUARDED


def _name(node: ast.stmt) -> str | None:
    return getattr(node, "name", None)


def test_all_sources_that_the_compiler_reads_are_tracked() -> None:
    """Otherwise a compiled module would be used although a constant in it has changed."""
    ours = {"analytics", "controller", "coordination", "ottla", "speedups", "trust", *READ}
    imported = {
        node.module.partition(".")[0]
        for name in HOT
        for node in ast.walk(tree_of(ROOT / f"{name.replace('.', '/')}.py"))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert imported & ours <= set(READ)
