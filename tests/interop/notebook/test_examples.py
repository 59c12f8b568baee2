"""Every example notebook runs from its first cell to its last, and shows its charts."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analytics.conftest import needs_java
from tests.interop.notebook.jupyter import ROOT, execute, needs_jupyter

pytestmark = [needs_java, needs_jupyter]
NOTEBOOKS = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))
PLOT = "application/vnd.plotly.v1+json"


def cells(notebook: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(notebook.read_text())["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def test_there_is_an_example() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_example_is_stored_without_outputs(notebook: Path) -> None:
    assert [cell["outputs"] for cell in cells(notebook) if cell["outputs"]] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_example_runs(notebook: Path, tmp_path: Path) -> None:
    executed = tmp_path / notebook.name
    execute(notebook, executed)
    outputs = [output for cell in cells(executed) for output in cell["outputs"]]
    assert [output for output in outputs if output["output_type"] == "error"] == []
    charts = [output["data"][PLOT] for output in outputs if PLOT in output.get("data", {})]
    assert len(charts) == 2
    text = json.dumps(outputs)
    assert "compaction: clean" in text
    assert "sensor-00" in text
