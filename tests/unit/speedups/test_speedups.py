"""The compiled modules are taken only if they are those of the sources."""

import ast
import subprocess
import sys
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
# What a process imports, and whether it may import it compiled.
TELL = """
import sys
import speedups.finder as finder
print(finder.enable(), finder.is_enabled())
import storage.log
print(storage.log.__file__)
"""


def make_tree(root: Path) -> Path:
    """Sources, and what was built of them; return the folder of the built."""
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
    """Where a module lies that was compiled."""
    return here / folder_name(state) / f"{name.replace('.', '/')}{SUFFIX}"


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_what_was_built_of_the_sources_is_found(tmp_path: Path) -> None:
    here = make_tree(tmp_path)
    files = finder.built_files(here)
    assert files is not None
    assert sorted(files) == sorted(HOT)
    assert all(file.exists() for file in files.values())


@pytest.mark.parametrize("package", READ)
def test_after_a_change_of_any_source_nothing_is(tmp_path: Path, package: str) -> None:
    here = make_tree(tmp_path)
    (tmp_path / package / "source.py").write_text("NAME = 'another'\n")
    assert finder.built_files(here) is None


def test_a_source_more_is_a_change(tmp_path: Path) -> None:
    here = make_tree(tmp_path)
    (tmp_path / READ[0] / "more.py").write_text("NAME = 'one more'\n")
    assert finder.built_files(here) is None


def test_with_one_missing_none_is_taken(tmp_path: Path) -> None:
    here = make_tree(tmp_path)
    binary(here, sources_state(tmp_path), HOT[-1]).unlink()
    assert finder.built_files(here) is None


def test_a_finder_knows_its_modules_only(tmp_path: Path) -> None:
    file, gone = tmp_path / f"log{SUFFIX}", tmp_path / f"segment{SUFFIX}"
    file.touch()
    found = finder.Finder({"storage.log": file, "storage.segment": gone})
    spec = found.find_spec("storage.log")
    assert spec is not None
    assert spec.origin == str(file)
    assert found.find_spec("storage.other") is None
    assert found.find_spec("storage.segment") is None


def test_it_is_too_late_once_a_source_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: None)
    monkeypatch.setattr(finder, "built_files", lambda _here: {"sys": Path("sys")})
    assert not finder.enable()


def test_a_process_takes_them_if_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: None)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(finder, "built_files", lambda _here: {"storage.unknown": Path("unknown")})
    was_enabled = finder.is_enabled()
    assert finder.enable()
    assert finder.is_enabled()
    del sys.meta_path[0]
    assert finder.is_enabled() == was_enabled


def test_who_traces_sees_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: print)
    monkeypatch.setattr(finder, "built_files", lambda _here: {})
    assert not finder.enable()


def tell(**environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", TELL], cwd=ROOT, env=environment, capture_output=True, check=True
    )
    return done.stdout.decode().splitlines()


@pytest.mark.skipif(not finder.are_built(), reason="not built of these sources")
def test_a_process_runs_what_was_built() -> None:
    told, path = tell()
    assert told == "True True"
    assert Path(path) == binary(ROOT / "speedups", sources_state(ROOT), "storage.log")


def test_the_environment_forbids_it() -> None:
    told, path = tell(OTTLA_PURE_PYTHON="1")
    assert told == "False False"
    assert Path(path) == ROOT / "storage" / "log.py"


@pytest.mark.parametrize("name", HOT)
def test_a_compiled_module_takes_nothing_from_elsewhere(name: str) -> None:
    """The compiler takes constants from what is imported, so the state must tell of that too."""
    tree = ast.parse((ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    imported = {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert imported & ours <= set(READ)
