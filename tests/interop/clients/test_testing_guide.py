"""Every test module in docs/testing.md passes, in a pytest of its own.

FastStream has a test of its own, in an environment where it is installed.
"""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
BLOCK = re.compile(r"```(python|python conftest|ini)\n(.*?)```", re.DOTALL)
TIMEOUT_S = 300


def test_every_example_passes(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    modules = [text for kind, text in blocks if kind == "python"]
    assert len(modules) > 5, "hardly any example was found"
    for number, text in enumerate(modules):
        (tmp_path / f"test_{number}.py").write_text(text, encoding="utf-8")
    [conftest] = [text for kind, text in blocks if kind == "python conftest"]
    [settings] = [text for kind, text in blocks if kind == "ini"]
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(f"{settings}asyncio_mode = auto\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(modules)} passed" in done.stdout
