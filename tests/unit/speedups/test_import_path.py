"""The packages and libraries that a daemon imports."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from speedups import import_path

ROOT = import_path.ROOT


@pytest.mark.parametrize(
    ("path", "inherited", "expected"),
    [
        pytest.param(["/app", "/lib", ROOT], ["/app"], ["/lib", ROOT, "/app"], id="installed"),
        pytest.param(["/app", "/lib"], ["/app"], ["/lib", ROOT, "/app"], id="found by a finder"),
        pytest.param(
            ["/app", ROOT, "/lib", "/other"],
            ["/app", ROOT],
            [ROOT, "/lib", "/other", "/app"],
            id="a checkout that replaces an installed one",
        ),
    ],
)
def test_directories_of_a_project_are_searched_last(
    path: list[str], inherited: list[str], expected: list[str]
) -> None:
    assert import_path.ordered(path, inherited, ROOT) == expected


def test_children_search_our_packages_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["/app", ROOT])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/app", ROOT]))
    import_path.prefer_our_packages()
    assert os.environ["PYTHONPATH"] == os.pathsep.join([ROOT, "/app"])


def test_the_working_directory_is_searched_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    here, lib = str(tmp_path), str(tmp_path / "lib")
    monkeypatch.setattr("sys.path", [here, lib, "/python", ROOT])
    monkeypatch.setenv("PYTHONPATH", "lib/")
    import_path.prefer_our_packages()
    import_path.prefer_our_packages()
    assert sys.path == ["/python", ROOT, here, lib]
    tmp_path.joinpath("lib").rmdir()
    tmp_path.rmdir()
    import_path.prefer_our_packages()
    assert sys.path == ["/python", ROOT, here, lib], "nothing is found there"


def test_path_without_project_directories_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["/lib", ROOT])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    import_path.prefer_our_packages()
    assert "PYTHONPATH" not in os.environ


def test_hidden_module_is_absent_in_the_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with import_path.hidden("colorsys"), pytest.raises(ImportError):
        import_module("colorsys")
    with import_path.hidden("colorsys"):
        pass
    module = import_module("colorsys")
    with import_path.hidden("colorsys"):
        assert import_module("colorsys") is module


def test_broker_starts_without_the_libraries_for_terminals() -> None:
    program = (
        "import sys; from broker.__main__ import main\n"
        "main(['no-such-file']); print('rich' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
