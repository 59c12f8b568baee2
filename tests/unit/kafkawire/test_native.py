"""The choice between the compiled functions and their plain twins."""

import os
import subprocess
import sys
from types import ModuleType

import pytest

from kafkawire import native, records_loops

REPORT = """
from kafkawire import native
print(native.IS_COMPILED, native.read_rows.__module__)
"""


@pytest.fixture(autouse=True)
def _choose_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # A name that a test looks up must not stay in the module.
    monkeypatch.delitem(vars(native), "read_rows", raising=False)
    monkeypatch.delenv("OTTLA_PURE_PYTHON", raising=False)


def test_without_a_compiled_module_the_plain_loops_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafkawire._records", None)
    assert native.compiled("_records") is None
    assert native.read_rows is records_loops.read_rows


@pytest.mark.parametrize("versions", [{"INTERFACE_VERSION": native.INTERFACE_VERSION - 1}, {}])
def test_a_compiled_module_of_another_version_is_not_used(
    versions: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = ModuleType("kafkawire._records")
    stale.__dict__.update(versions)
    monkeypatch.setitem(sys.modules, "kafkawire._records", stale)
    assert native.compiled("_records") is None
    assert native.read_rows is records_loops.read_rows


def test_a_name_without_twins_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'missing'"):
        getattr(native, "missing")  # noqa: B009 - mypy knows that it is missing


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("1", "False kafkawire.records_loops"),
        ("0", "True kafkawire._records"),
        ("", "True kafkawire._records"),
    ],
)
def test_environment_can_disable_the_compiled_loops(setting: str, expected: str) -> None:
    if not native.IS_COMPILED and expected.startswith("True"):
        pytest.skip("the loops are not compiled")
    environment = os.environ | {"OTTLA_PURE_PYTHON": setting}
    ran = subprocess.run(
        [sys.executable, "-c", REPORT], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == expected
