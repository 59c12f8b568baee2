"""The choice between the compiled and the plain scanner."""

import importlib.util
import os
import subprocess
import sys
from types import ModuleType

import pytest

from kafkawire import records_loops, records_scanner
from kafkawire.records import HAS_COMPILED_SCANNER

REPORT = """
from kafkawire import records_scanner as scanner
print(scanner.HAS_COMPILED_SCANNER, scanner.read_rows.__module__)
"""


def scanner_again() -> ModuleType:
    """Return the module as if it were imported now."""
    spec = importlib.util.spec_from_file_location("scanner_again", records_scanner.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_compiled_twin_the_plain_loops_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafkawire._records", None)
    monkeypatch.delattr("kafkawire._records", raising=False)
    scanner = scanner_again()
    assert scanner.HAS_COMPILED_SCANNER is False
    assert scanner.RecordBuffer is records_loops.RecordBuffer


def test_a_twin_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = ModuleType("kafkawire._records")
    stale.__dict__["INTERFACE_VERSION"] = records_loops.INTERFACE_VERSION - 1
    monkeypatch.setitem(sys.modules, "kafkawire._records", stale)
    monkeypatch.setattr("kafkawire._records", stale, raising=False)
    scanner = scanner_again()
    assert scanner.HAS_COMPILED_SCANNER is False
    assert scanner.read_rows is records_loops.read_rows


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("1", "False kafkawire.records_loops"),
        ("0", "True kafkawire._records"),
        ("", "True kafkawire._records"),
    ],
)
def test_environment_can_disable_the_compiled_loops(setting: str, expected: str) -> None:
    if not HAS_COMPILED_SCANNER and expected.startswith("True"):
        pytest.skip("no compiled scanner here")
    environment = os.environ | {"OTTLA_PURE_PYTHON": setting}
    ran = subprocess.run(
        [sys.executable, "-c", REPORT], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == expected
