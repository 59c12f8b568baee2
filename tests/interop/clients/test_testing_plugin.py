"""A project of somebody else tests itself with `ottla.testing`: FastStream, in a clean environment.

The environment has no other part of this project, so the entry point, the packaging and the
launcher are the ones that users get. The tests run in two workers of pytest-xdist.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.install_check.environment import Environment, build_sdist

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
TIMEOUT_S = 600
COPIES = 4
PLAIN = {"OTTLA_PURE_PYTHON": "1"}
# A user's packages with the names of ours must neither disturb the servers nor be replaced.
USERS_PACKAGES = ("broker", "storage")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    place = tmp_path_factory.mktemp("faststream")
    sdist = build_sdist(ROOT, place / "dist")
    made = Environment(Path(sys.executable), place / "environment")
    requirements = ("faststream[kafka]", "pytest-asyncio", "pytest-xdist")
    made.install(f"{sdist}[testing]", *requirements, settings=PLAIN)
    return made


def test_an_application_of_faststream_is_tested(environment: Environment, tmp_path: Path) -> None:
    [module] = re.findall(r"```python faststream\n(.*?)```", PAGE, flags=re.DOTALL)
    for number in range(COPIES):
        (tmp_path / f"test_{number}.py").write_text(module, encoding="utf-8")
    for name in USERS_PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n", encoding="utf-8")
    imports = "".join(f"import {name}\nassert {name}.MINE\n" for name in USERS_PACKAGES)
    (tmp_path / "test_own.py").write_text(
        f"{imports}\n\ndef test_own_packages(ottla_broker):\n    assert ottla_broker.pid\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [str(environment.programs / "python"), "-m", "pytest", "-q", "-n", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COPIES + 1} passed" in done.stdout
